"""What a kind of server is: a table of capabilities and one probe. The rest of the gateway asks the table, never the name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.backends.loads import Loads
from gateway.values import Probe

if TYPE_CHECKING:
    from gateway.backends.control import Control


@dataclass(frozen=True, slots=True)
class Kind:
    """Capabilities of a kind of server.

    serves: paths (of the dialect table) that it answers; lists: list path -> the field that names a model in its rows;
    probes: paths by which clients recognise this kind, 404 on a listener of another identity;
    usage_unasked: it reports token counts in a stream without `stream_options.include_usage`;
    strip: request headers that must not reach it (lower case); destructive: "METHOD /path" globs refused unless
    `passthrough: all`; latest: `name` and `name:latest` are one model; owns: beginnings of paths that are its own API;
    blind_zero: paths on which it may report 0 cached tokens without having counted; loads: how it is told to load and to keep
    a model, None where its model is always there; pins: paths on which `id_slot` in the body names the slot; asks_cache: paths
    on which some of its versions reuse nothing unless `cache_prompt` says so; shares: what a request has computed can be reused
    by others while that one still runs (paged caches); settle: seconds after its end, or its prefill where it shares,
    until a prompt can be reused; evicts: it unloads a model that is at work to load another that a request names;
    slot_files: its slots may be saved to files; steps: it renders a chat (`/apply-template`) and cuts text into tokens
    (`/tokenize`), so that a long prompt can be read piece by piece through `/completion`.
    """

    name: str
    serves: frozenset[str]
    probe: Callable[[Control], Awaitable[Probe]]
    lists: dict[str, str]
    probes: frozenset[str] = frozenset()
    usage_unasked: bool = False
    strip: frozenset[str] = frozenset()
    destructive: tuple[str, ...] = ()
    latest: bool = False
    owns: tuple[str, ...] = ()
    blind_zero: frozenset[str] = frozenset()
    loads: Loads | None = None
    pins: frozenset[str] = frozenset()
    asks_cache: frozenset[str] = frozenset()
    shares: bool = False
    settle: float = 0.0
    evicts: bool = False
    slot_files: bool = False
    steps: bool = False
