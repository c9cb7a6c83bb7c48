"""Why a request goes where it goes, as one word: a closed set, because it labels a metric. Pure."""

from __future__ import annotations

from typing import Literal, get_args

Decision = Literal[
    "only",
    "order",
    "single_model",
    "unlisted",
    "unhealthy",
    "resident",
    "least_busy",
    "warm",
    "snapshot",
    "lead",
    "session",
    "least_worth",
    "side",
    "asked",
    "spread",
    "full",
    "wait_warm",
    "wait_prefix",
    "wait_side",
    "wait_context",
    "wait_model",
]
"""By name alone: the `only` place there is; first in the `order` of the configuration; the server takes any name
(`single_model`); no list is known yet, so it is tried (`unlisted`); all are `unhealthy`, so the first is tried.

By what the servers do: the model is `resident`; the `least_busy`. By prefix: it is `warm` there; a `snapshot` is restored; the
gateway computes the head first and saves it (`lead`); the `session` was there before; the slot whose prefix is of the
`least_worth`; a `side` request kept off big prefixes; the client `asked` for the slot; cold elsewhere rather than waiting for
the warm place (`spread`).

While it waits: everything is `full`; for a busy slot or server that holds its prefix (`wait_warm`); for the same prefix that
another request is computing or has just computed (`wait_prefix`); for the main conversation's pause (`wait_side`); for room in
a shared context (`wait_context`); for the streams of a model that loading this one would push out (`wait_model`)."""

DECISIONS: tuple[Decision, ...] = get_args(Decision)
