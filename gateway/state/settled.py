"""What accounting says of a request that has ended, and whether it is worth another look at the backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from gateway.prefix.index import Warm
from gateway.state.explained import Compared, explanation
from gateway.values import Reason, Record

Explain = Callable[[], dict[str, Any]]
"""Makes the explanation of a request when somebody asks for it."""

UNSURE: frozenset[Reason | None] = frozenset({"evicted", "slot_moved", "engine_limit", "unknown", "side_request"})
"""Why a backend has less than it was believed to, as long as nobody has seen that it is another process."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A backend may have been restarted since it was looked at last. warm: what it was believed to hold; compared: what the
    explanation is made of."""

    warm: Warm
    compared: Compared | None


@dataclass(frozen=True, slots=True)
class Settled:
    """A request that has ended. explain: makes its explanation, None if there was no prompt that could be compared; doubt:
    worth another look at the backend before this is told."""

    record: Record
    explain: Explain | None = None
    doubt: Doubt | None = None


def explain_later(compared: Compared | None, record: Record) -> Explain | None:
    """What makes the explanation of this record, None if it was compared with nothing that is kept."""
    return partial(explanation, compared, record) if compared else None
