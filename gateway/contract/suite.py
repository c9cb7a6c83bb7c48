"""Asks one server all probes that are about its kind, one after another, and never for longer than the limits say."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase

import httpx

from gateway import values
from gateway.backends import KINDS
from gateway.backends.control import Control, describe
from gateway.contract.base import Finding, Probe, Settled, differs, skipped
from gateway.contract.probes import PROBES
from gateway.contract.report import Masking, Report, Row
from gateway.contract.server import Server
from gateway.errors import Unreachable, WarmgateError

LOOK = 10.0  # seconds that a question about the server itself may take
BUDGET = 240.0
"""Seconds after which no further probe is begun. A slow server takes a quarter of that."""

NOT_FOR_TALK = ("embed", "rerank", "whisper", "tts")
"""Parts of names of models that answer no questions."""


class NotExamined(WarmgateError):
    """The server cannot be examined: it is not there, is loading, wants a key, or has no model."""


async def examine(
    url: str,
    *,
    kind: str | None = None,
    model: str | None = None,
    key: str | None = None,
    only: Sequence[str] = (),
    mutating: bool = False,
    probes: Iterable[Probe] = PROBES,
    progress: Callable[[str], None] = lambda name: None,
) -> Report:
    """The findings of a run. Raises NotExamined, with a sentence.

    kind: None = find out; model: None = one that is loaded, else the first; only: patterns of names of probes; mutating: also
    probes that load, unload, or write slot files; progress: is told each probe's name before it is asked.
    """
    headers = {"authorization": f"Bearer {key}", "x-api-key": key} if key else {}
    started, began = datetime.now(UTC), time.monotonic()
    control = Control(url, headers, timeout=LOOK)
    # A connection for each request: one that the server is just about to close would look like a failure of the probe.
    limits, timeout = httpx.Limits(max_keepalive_connections=0), httpx.Timeout(None, connect=LOOK)
    async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=timeout, limits=limits) as client:
        try:
            seen = await _look(control, kind)
            name = model or choose(seen)
            masking = Masking(control.base_url, name, [key] if key else ())
            server = Server(control, client, KINDS[kind or seen.kind], seen, name, masking)
            chosen = [probe for probe in probes if server.kind.name in probe.kinds and _wanted(probe, only, mutating)]
            rows = [await _row(probe, server, began + BUDGET, progress) for probe in chosen]
        finally:
            await control.close()
    return Report(
        url=masking.url,
        kind=server.kind.name,
        version=seen.version,
        model=masking.model,
        started=started.isoformat(timespec="seconds"),
        seconds=time.monotonic() - began,
        rows=tuple(rows),
    )


async def _look(control: Control, kind: str | None) -> values.Probe:
    try:
        seen = await KINDS[kind or "auto"].probe(control)
    except Unreachable as error:
        raise NotExamined(f"The server cannot be reached. {Masking(control.base_url, '').text(str(error))}") from error
    if not seen.up:
        raise NotExamined(f"The server cannot be examined: {seen.problem or 'it does not answer as a model server'}")
    return seen


def choose(seen: values.Probe) -> str:
    """A model that is loaded, so that nothing has to be loaded for a look; else the first that may answer questions."""
    talking = [m for m in seen.models if not any(part in m.name.lower() for part in NOT_FOR_TALK)]
    chosen = next((m for m in talking if m.resident), next(iter(talking), None))
    if chosen is None:
        raise NotExamined("The server lists no model; name one with --model.")
    return chosen.name


def _wanted(probe: Probe, only: Sequence[str], mutating: bool) -> bool:
    """Who names a probe exactly wants it, whatever it does."""
    named = not only or any(fnmatchcase(probe.name, pattern) for pattern in only)
    return named and (mutating or not probe.mutating or probe.name in only)


async def _row(probe: Probe, server: Server, deadline: float, progress: Callable[[str], None]) -> Row:
    progress(probe.name)
    began = time.monotonic()
    found = skipped("the time for all probes was used up") if began > deadline else await _finding(probe, server)
    return Row(probe.name, probe.proves, probe.source, server.masking.finding(found), time.monotonic() - began)


async def _finding(probe: Probe, server: Server) -> Finding:
    """Whatever a server does, the other probes are still asked."""
    try:
        async with asyncio.timeout(probe.seconds):
            return await probe.ask(server)
    except Settled as settled:
        return settled.finding
    except TimeoutError:
        return differs(f"no answer in {probe.seconds:g} s")
    except (httpx.HTTPError, Unreachable, OSError) as error:
        return differs(f"the connection failed: {describe(error)}")
    except (LookupError, TypeError, ValueError, AttributeError) as error:  # a reply of a shape that nobody has seen yet
        return differs(f"the reply could not be read: {type(error).__name__}: {error}")
