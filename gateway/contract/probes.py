"""The list of all probes, in the order in which they are asked: what must be seen before anything is loaded comes first."""

from __future__ import annotations

from gateway.contract import answers, caching, errors, limits, lists, residency, slots, tokens
from gateway.contract.base import Probe

PROBES: tuple[Probe, ...] = (
    *lists.PROBES,
    *answers.PROBES,
    *caching.PROBES,
    *errors.PROBES,
    *limits.PROBES,
    *tokens.PROBES,
    *slots.PROBES,
    *residency.PROBES,
)
