"""The overview's rows on requests: is it working, the first token, the cache."""

from __future__ import annotations

from grafana.promql import BACKEND, HERE, PAIR, increase, of, quantile, rate, share, total
from grafana.spec import RANGE, Panel, Query, Row

GOOD = (("red", 0.0), ("yellow", 0.5), ("green", 0.8))
PLAIN = (("text", 0.0),)

TTFT = "time_to_first_token_seconds"
COLD = 'cache=~"partial|miss"'
REPORTED, INFERRED = 'report="reported"', 'report="inferred"'

WORKING = Row(
    "Is it working?",
    (
        Panel(
            "Saved by the gateway",
            "Of all prefill seconds that servers were spared, the share that the gateway made, by canonical prompts, "
            "placement, snapshots and warm-ups. The rest would have hit without it.",
            "percentunit",
            (
                Query(
                    share(
                        "",
                        increase("prefill_seconds_saved_total", HERE, 'by!="server"', over=RANGE),
                        increase("prefill_seconds_saved_total", HERE, over=RANGE),
                    )
                ),
            ),
            "stat",
            4,
            4,
            steps=PLAIN,
        ),
        Panel(
            "Prompt tokens reused",
            "Of the prompt tokens of answers that report it. Agents that resend their history reach 90 % and more.",
            "percentunit",
            (
                Query(
                    share(
                        "",
                        increase("prompt_tokens_cached_total", PAIR, REPORTED, over=RANGE),
                        increase("prompt_tokens_total", PAIR, REPORTED, over=RANGE),
                    )
                ),
            ),
            "stat",
            4,
            4,
            steps=GOOD,
        ),
        Panel(
            "First token, warm",
            "Median over the shown time, of streams whose prompt was reused but for its newest message.",
            "s",
            (Query(quantile(0.5, "", TTFT, PAIR, 'cache="hit"', over=RANGE)),),
            "stat",
            4,
            4,
            steps=PLAIN,
        ),
        Panel(
            "First token, cold",
            "Median over the shown time, of streams whose prompt was reused in part or not at all.",
            "s",
            (Query(quantile(0.5, "", TTFT, PAIR, COLD, over=RANGE)),),
            "stat",
            4,
            4,
            steps=PLAIN,
        ),
        Panel(
            "Backends up",
            "Backends that answered their last probe.",
            "none",
            (Query(total("", of("backend_up", BACKEND)), "up"), Query(f"count({of('backend_up', BACKEND)})", "of")),
            "stat",
            4,
            4,
            steps=PLAIN,
        ),
        Panel(
            "Models loaded",
            "Models that are in memory now, on all backends that tell.",
            "none",
            (Query(total("", of("model_resident", BACKEND))),),
            "stat",
            4,
            4,
            steps=PLAIN,
        ),
        Panel(
            "Prefill saved",
            "Seconds of prefill that servers were spared in each second, by what made the prompt hit: the server's own cache "
            "with the client's own bytes, or the gateway.",
            "s",
            (Query(total("by", rate("prefill_seconds_saved_total")), "{{by}}"),),
            "stacked",
        ),
        Panel(
            "Prefill lost",
            "Seconds of prefill in each second that were spent on tokens that could have been reused, by why they were not. "
            "`warmgate explain` tells it of a single request.",
            "s",
            (Query(total("reason", rate("prefill_seconds_lost_total")), "{{reason}}"),),
            "stacked",
        ),
    ),
)

FIRST_TOKEN = Row(
    "First token",
    (
        Panel(
            "First token by cache outcome",
            "hit: all but the newest message was reused; partial; miss: nothing. unknown, dashed: the server does not report "
            "it, so these streams may be either.",
            "s",
            tuple(Query(quantile(q, "cache", TTFT, PAIR), f"{{{{cache}}}} p{int(q * 100)}") for q in (0.5, 0.95)),
            dashed="/^unknown/",
        ),
        Panel(
            "First token, all streams",
            "Each column is a span of time, each cell the streams whose first token came after so long. Two bands are warm and "
            "cold prompts; a third one is models that had to be loaded.",
            "s",
            (Query(total("le", rate(f"{TTFT}_bucket", PAIR)), "{{le}}"),),
            "heatmap",
        ),
        Panel(
            "First token by model, p95",
            "The slowest streams of each model on each backend.",
            "s",
            (Query(quantile(0.95, "backend, model", TTFT, PAIR), "{{backend}} {{model}}"),),
        ),
        Panel(
            "Time per output token by model, p50",
            "Between output tokens after the first. It grows when a server works on several requests at once.",
            "s",
            (Query(quantile(0.5, "backend, model", "time_per_output_token_seconds", PAIR), "{{backend}} {{model}}"),),
        ),
        Panel(
            "Duration by model, p95",
            "From the request read completely to the last byte for the client.",
            "s",
            (Query(quantile(0.95, "backend, model", "request_duration_seconds", PAIR), "{{backend}} {{model}}"),),
        ),
        Panel(
            "Tokens",
            "Prompt tokens with those that were reused, and tokens generated, in each second.",
            "short",
            (
                Query(total("", rate("prompt_tokens_total", PAIR)), "prompt"),
                Query(total("", rate("prompt_tokens_cached_total", PAIR)), "reused"),
                Query(total("", rate("completion_tokens_total", PAIR)), "generated"),
            ),
        ),
    ),
)

CACHE = Row(
    "Cache",
    (
        Panel(
            "Prompt tokens reused by model",
            "As the servers report it; dashed: inferred from their times, where they report nothing. Models in neither are "
            " unknown, not 0.",
            "percentunit",
            tuple(
                Query(
                    share(
                        "backend, model",
                        rate("prompt_tokens_cached_total", PAIR, report),
                        rate("prompt_tokens_total", PAIR, report),
                    ),
                    f"{{{{backend}}}} {{{{model}}}}{words}",
                )
                for report, words in ((REPORTED, ""), (INFERRED, " (inferred)"))
            ),
            dashed="/inferred/",
            most=1.0,
        ),
        Panel(
            "Misses by reason",
            "Requests in each second that computed tokens which could have been reused. system_changed, tools_changed and "
            "history_changed are the client's; evicted and slot_moved want more slots or snapshots.",
            "reqps",
            (Query(total("reason", rate("cache_misses_total", PAIR)), "{{reason}}"),),
            "stacked",
        ),
        Panel(
            "Edits by rule",
            "Places in prompts that a rule of the canonical form changed (rewrite), or would have changed (observe).",
            "ops",
            (Query(total("rule, action", rate("canonical_edits_total")), "{{rule}} ({{action}})"),),
            "stacked",
        ),
        Panel(
            "Volatile content by detector",
            "Prompts in each second in which something was found that changes between requests: times, ids, counters. A new "
            "one here is a new release of some client.",
            "reqps",
            (Query(total("detector", rate("volatile_found_total")), "{{detector}}"),),
            "stacked",
        ),
        Panel(
            "Left as they were, or refused",
            "Prompts in which something was found and that went out unchanged, by why; and edited ones that a server refused.",
            "reqps",
            (
                Query(total("reason", rate("canonical_untouched_total")), "{{reason}}"),
                Query(total("", rate("rewrite_rejected_total")), "refused by a server"),
            ),
        ),
        Panel(
            "How well reuse is foreseen",
            "Tokens between the expected and the reported reuse, as a share of the prompt. Small is good for routing.",
            "percentunit",
            tuple(Query(quantile(q, "", "prediction_error_ratio"), f"p{int(q * 100)}") for q in (0.5, 0.9)),
        ),
        Panel(
            "Working set",
            "Tokens of all different prefixes of the last day, an estimate. If this is more than the servers' slots and caches "
            "can hold, prefixes are evicted.",
            "short",
            (Query(of("working_set_tokens"), "tokens, {{instance}}"), Query(of("index_nodes"), "digests, {{instance}}")),
        ),
        Panel(
            "Where cached counts come from",
            "Answers in each second: usage and timings are reported, inferred is estimated from times, none is not known. "
            "`warmgate doctor` says how to make a server report them.",
            "reqps",
            (Query(total("source", rate("cache_reports_total")), "{{source}}"),),
            "stacked",
        ),
    ),
)
