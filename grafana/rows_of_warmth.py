"""The overview's rows on what is kept: models in memory, warm-ups, snapshots."""

from __future__ import annotations

from grafana.promql import BACKEND, of, quantile, rate, total
from grafana.spec import Panel, Query, Row

LOADED = ((0, "not loaded", "dark-red"), (1, "loaded", "green"))
WARM = ((0, "cold", "dark-blue"), (1, "warm", "orange"))

RESIDENCY = Row(
    "Residency",
    (
        Panel(
            "Models in memory",
            "Each model on each backend that tells. A gap is a time for which the backend did not answer.",
            "none",
            (Query(of("model_resident", BACKEND), "{{backend}} {{model}}"),),
            "states",
            words=LOADED,
        ),
        Panel(
            "Models that ought to be in memory",
            "What `models.*.keep` wants loaded, in its hours and unless it was released; drawn where it is not.",
            "none",
            (Query(f"{of('model_kept', BACKEND)} * {of('model_resident', BACKEND)}", "{{backend}} {{model}}"),),
            "states",
            words=LOADED,
        ),
        Panel(
            "Loads by cause",
            "Models that came to be loaded in each second. Many by `user` are models that push each other out.",
            "ops",
            (Query(total("cause", rate("model_loads_total")), "{{cause}}"),),
            "stacked",
        ),
        Panel(
            "Unloads by cause",
            "evicted: another model took its place; expired: its time was over; client: somebody unloaded it.",
            "ops",
            (Query(total("cause", rate("model_unloads_total")), "{{cause}}"),),
            "stacked",
        ),
        Panel(
            "Pings",
            "Times in each second that a server was told to load a model or how long to keep it; requests whose own shorter "
            "keep_alive was raised.",
            "ops",
            (
                Query(total("act, outcome", rate("keepalive_pings_total")), "{{act}} {{outcome}}"),
                Query(total("", rate("keepalive_overridden_total")), "keep_alive raised"),
            ),
        ),
        Panel(
            "Load time",
            "How long models took to load, where a request waited for it or the gateway asked for it.",
            "s",
            tuple(Query(quantile(q, "", "model_load_seconds"), f"p{int(q * 100)}") for q in (0.5, 0.95)),
        ),
        Panel(
            "Memory of models",
            "As the backend tells it; servers that do not are not here.",
            "bytes",
            (Query(of("model_resident_bytes", BACKEND), "{{backend}} {{model}}"),),
            "stacked",
        ),
        Panel(
            "Time until unloaded",
            "What is left of each model's keep-alive, where there is an end.",
            "s",
            (Query(f"{of('model_expires_timestamp_seconds', BACKEND)} < Inf - time()", "{{backend}} {{model}}"),),
        ),
    ),
)

WARMTH = Row(
    "Warm-ups and snapshots",
    (
        Panel(
            "Pinned prefixes",
            "Whether each pin of the configuration is believed to be in a cache.",
            "none",
            (Query(of("prefix_warm", BACKEND), "{{pin}} on {{backend}}"),),
            "states",
            words=WARM,
        ),
        Panel(
            "Warm-ups",
            "Prefixes that were read ahead, in each second, by how it ended. interrupted: a user's request wanted the server.",
            "ops",
            (Query(total("outcome", rate("warmup_runs_total")), "{{outcome}}"),),
            "stacked",
        ),
        Panel(
            "Warm-up time",
            "How long the warm-ups took that computed or restored anything.",
            "s",
            tuple(Query(quantile(q, "", "warmup_seconds"), f"p{int(q * 100)}") for q in (0.5, 0.95)),
        ),
        Panel(
            "Snapshots",
            "What was done with slot files in each second, and how it ended.",
            "ops",
            (Query(total("op, outcome", rate("snapshots_total")), "{{op}} {{outcome}}"),),
            "stacked",
        ),
        Panel(
            "Stalls by snapshots",
            "How long a server did nothing but save or restore a slot, p95.",
            "s",
            (Query(quantile(0.95, "op", "snapshot_stall_seconds"), "{{op}}"),),
        ),
        Panel(
            "Slot files",
            "Bytes of all of them, those of no use any more included.",
            "bytes",
            (Query(of("snapshot_bytes", BACKEND), "{{backend}}"),),
            "stacked",
            width=6,
        ),
        Panel(
            "Saved slots",
            "Snapshots that can be restored; and, as 1, whether they were given up until the server restarts.",
            "none",
            (
                Query(of("snapshot_files", BACKEND), "{{backend}}"),
                Query(f"{of('snapshots_disabled', BACKEND)} == 1", "{{backend}} given up"),
            ),
            width=6,
        ),
    ),
)
