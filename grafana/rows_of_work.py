"""The overview's rows on work: routing, and the gateway itself."""

from __future__ import annotations

from grafana.promql import BACKEND, HERE, PAIR, of, quantile, rate, total
from grafana.spec import Panel, Query, Row

ROUTING = Row(
    "Routing",
    (
        Panel(
            "Decisions",
            "Requests in each second by why they went where they went. warm, snapshot and session found their prefix; spread "
            "and least_worth did not.",
            "reqps",
            (Query(total("decision", rate("routes_total", BACKEND)), "{{decision}}"),),
            "stacked",
        ),
        Panel(
            "Slots",
            "Slots of llama.cpp servers. foreign: busy with what did not come through the gateway.",
            "none",
            (Query(total("state", of("slots", BACKEND)), "{{state}}"),),
            "stacked",
        ),
        Panel(
            "Held requests",
            "Requests that wait in the gateway for a place, or for a better one; and those that servers work on.",
            "none",
            (
                Query(of("waiting", BACKEND), "waits for {{backend}}"),
                Query(of("inflight", BACKEND), "{{backend}} works on"),
            ),
        ),
        Panel(
            "Wait for a place",
            "How long requests waited in the gateway. Those that do not wait count as 0.",
            "s",
            tuple(
                Query(quantile(q, "backend", "queue_seconds", BACKEND), f"{{{{backend}}}} p{int(q * 100)}") for q in (0.5, 0.95)
            ),
        ),
        Panel(
            "Holds by what they were for, p95",
            "How long requests that had to wait did so, by what for: everything was full, or it was better to wait for a place "
            "that holds the prefix.",
            "s",
            (Query(quantile(0.95, "decision", "hold_seconds"), "{{decision}}"),),
        ),
        Panel(
            "Holds",
            "Requests in each second that had to wait, by what for.",
            "reqps",
            (Query(total("decision", rate("hold_seconds_count")), "{{decision}}"),),
            "stacked",
        ),
        Panel(
            "Pinning given up",
            "1 while requests are not pinned to slots although they could be, by why. `warmgate ps` tells more.",
            "none",
            (Query(of("pin_disabled", BACKEND), "{{backend}} {{reason}}"),),
        ),
        Panel(
            "Circuits",
            "1 while failures keep requests away from a backend.",
            "none",
            (Query(of("circuit_open", BACKEND), "{{backend}}"),),
        ),
    ),
)

GATEWAY = Row(
    "The gateway itself",
    (
        Panel(
            "Overhead by stage, p99",
            "The gateway's own time before it asks the backend.",
            "s",
            (Query(quantile(0.99, "stage", "overhead_seconds"), "{{stage}}"),),
        ),
        Panel(
            "Requests by outcome",
            "Finished requests in each second. client_error: the backend answered 4xx; refused: the gateway did; cancelled: "
            "the client left.",
            "reqps",
            (Query(total("outcome", rate("requests_total", PAIR)), "{{outcome}}"),),
            "stacked",
        ),
        Panel(
            "Clients that left",
            "Requests in each second whose client left before the end.",
            "reqps",
            (Query(rate("client_disconnects_total"), "{{instance}}"),),
            width=6,
        ),
        Panel(
            "Processor",
            "Share of one processor that the gateway uses.",
            "percentunit",
            (Query(rate("process_cpu_seconds_total"), "{{instance}}"),),
            width=6,
        ),
        Panel(
            "Memory",
            "Memory of the gateway's process.",
            "bytes",
            (Query(of("process_resident_memory_bytes"), "{{instance}}"),),
            width=6,
        ),
        Panel(
            "Open files",
            "Files and connections that the gateway's process has open.",
            "none",
            (Query(of("process_open_fds"), "{{instance}}"),),
            width=6,
        ),
        Panel(
            "Configuration",
            "Whether it was last loaded without error; if not, the one before is in force.",
            "none",
            (Query(of("config_last_reload_successful"), "{{instance}}"),),
            "stat",
            width=6,
            height=4,
            steps=(("red", 0.0), ("green", 1.0)),
            words=((0, "not loaded", "red"), (1, "in force", "green")),
        ),
        Panel(
            "Loaded since",
            "For how long the configuration has been in force.",
            "s",
            (Query(f"time() - {of('config_last_reload_success_timestamp_seconds')}", "{{instance}}"),),
            "stat",
            width=6,
            height=4,
            steps=(("text", 0.0),),
        ),
        Panel(
            "Running since",
            "For how long the gateway's process runs.",
            "s",
            (Query(f"time() - {of('process_start_time_seconds')}", "{{instance}}"),),
            "stat",
            width=6,
            height=4,
            steps=(("text", 0.0),),
        ),
        Panel(
            "Version",
            "What runs.",
            "none",
            (Query(f"count by (version) ({of('build_info', HERE)})", "{{version}}"),),
            "stat",
            width=6,
            height=4,
            steps=(("text", 0.0),),
        ),
    ),
)
