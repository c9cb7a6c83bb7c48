"""The servers' own metrics in the words of the overview: llama.cpp (started with --metrics) and vLLM.

Names and meanings: llama.cpp `tools/server/README.md` and `server-context.cpp` (its prompt_tokens_total leaves out what was
reused), vLLM `docs/usage/metrics.md` (its prefix_cache counters count tokens).
"""

from __future__ import annotations

from grafana.spec import RATE, Dashboard, Panel, Query, Row, Variable

HERE = 'job=~"$job",instance=~"$instance"'
MODEL = f'{HERE},model_name=~"$model"'


def llama(name: str) -> str:
    return f"llamacpp:{name}{{{HERE}}}"


def vllm(name: str) -> str:
    return f"vllm:{name}{{{MODEL}}}"


def rate(series: str) -> str:
    return f"rate({series}{RATE})"


def by_server(series: str) -> str:
    return f"sum by (instance) ({series})"


def by_model(series: str) -> str:
    return f"sum by (instance, model_name) ({series})"


def quantiles(name: str) -> tuple[Query, ...]:
    """Of one of vLLM's histograms."""
    buckets = f"sum by (le, instance, model_name) ({rate(vllm(f'{name}_bucket'))})"
    return tuple(
        Query(f"histogram_quantile({q}, {buckets})", f"{{{{instance}}}} {{{{model_name}}}} p{int(q * 100)}")
        for q in (0.5, 0.95)
    )


SERVER, NAMED = "{{instance}}", "{{instance}} {{model_name}}"
FRESH, REUSED = rate(llama("prompt_tokens_total")), rate(llama("prompt_tokens_cached_total"))

LLAMACPP = Row(
    "llama.cpp",
    (
        Panel(
            "Prompt tokens reused",
            "Of all prompt tokens, also of requests that did not come through the gateway.",
            "percentunit",
            (Query(f"{by_server(REUSED)} / ({by_server(FRESH)} + {by_server(REUSED)})", SERVER),),
            most=1.0,
        ),
        Panel(
            "Tokens",
            "Prompt tokens that were computed and that were reused, and tokens generated, in each second.",
            "short",
            (
                Query(by_server(FRESH), f"{SERVER} computed"),
                Query(by_server(REUSED), f"{SERVER} reused"),
                Query(by_server(rate(llama("tokens_predicted_total"))), f"{SERVER} generated"),
            ),
        ),
        Panel(
            "Prefill speed",
            "Prompt tokens computed in each second that the server spent on prompts.",
            "short",
            (Query(f"{by_server(FRESH)} / {by_server(rate(llama('prompt_seconds_total')))}", SERVER),),
        ),
        Panel(
            "Time per output token",
            "Mean, from the server's own seconds.",
            "s",
            (
                Query(
                    f"{by_server(rate(llama('tokens_predicted_seconds_total')))} / "
                    f"{by_server(rate(llama('tokens_predicted_total')))}",
                    SERVER,
                ),
            ),
        ),
        Panel(
            "Requests that it works on, and that wait in it",
            "What waits in the server waits for a slot; the gateway keeps its own requests from waiting there.",
            "none",
            (
                Query(by_server(llama("requests_processing")), f"{SERVER} works on"),
                Query(by_server(llama("requests_deferred")), f"{SERVER} waits"),
            ),
        ),
        Panel(
            "Busy slots for each step",
            "Slots that a step of the model served, on average since the server started.",
            "none",
            (Query(by_server(llama("n_busy_slots_per_decode")), SERVER),),
        ),
    ),
)

VLLM = Row(
    "vLLM",
    (
        Panel(
            "Prompt tokens reused",
            "Of all prompt tokens that were looked up in the prefix cache. It holds whole blocks, usually of 16 tokens.",
            "percentunit",
            (
                Query(
                    f"{by_model(rate(vllm('prefix_cache_hits_total')))} / {by_model(rate(vllm('prefix_cache_queries_total')))}",
                    NAMED,
                ),
            ),
            most=1.0,
        ),
        Panel(
            "Tokens",
            "Prompt tokens, reused ones included, and tokens generated, in each second.",
            "short",
            (
                Query(by_model(rate(vllm("prompt_tokens_total"))), f"{NAMED} prompt"),
                Query(by_model(rate(vllm("prefix_cache_hits_total"))), f"{NAMED} reused"),
                Query(by_model(rate(vllm("generation_tokens_total"))), f"{NAMED} generated"),
            ),
        ),
        Panel("First token", "From arrival at vLLM, its queue included.", "s", quantiles("time_to_first_token_seconds")),
        Panel("Time per output token", "Between output tokens after the first.", "s", quantiles("inter_token_latency_seconds")),
        Panel(
            "Requests that it works on, and that wait in it",
            "What waits in the server waits for room in its KV cache.",
            "none",
            (
                Query(by_model(vllm("num_requests_running")), f"{NAMED} works on"),
                Query(by_model(vllm("num_requests_waiting")), f"{NAMED} waits"),
            ),
        ),
        Panel(
            "KV cache in use",
            "Blocks that running requests hold; the rest is free to keep prefixes.",
            "percentunit",
            (Query(vllm("kv_cache_usage_perc"), NAMED),),
            most=1.0,
        ),
    ),
)

EITHER = '{__name__=~"llamacpp:prompt_tokens_total|vllm:prompt_tokens_total"'

BACKENDS = Dashboard(
    "warmgate-backends",
    "Warmgate: backends",
    "What the servers say of themselves, in the words of the overview. Prometheus must scrape them too.",
    (
        Variable("job", f"label_values({EITHER}}}, job)"),
        Variable("instance", f'label_values({EITHER},job=~"$job"}}, instance)'),
        Variable("model", 'label_values(vllm:prompt_tokens_total{job=~"$job",instance=~"$instance"}, model_name)'),
    ),
    (LLAMACPP, VLLM),
)
