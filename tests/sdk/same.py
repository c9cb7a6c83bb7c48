"""The same question both ways, and what must be the same about the answers."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Any

from tests.sdk.conftest import Ways

OWN = frozenset(
    ["id", "created", "created_at", "completed_at", "timings", "item_id", "response_id", "request_id", "_request_id"]
)
"""Fields that differ between two answers to the same question."""


def plain(value: Any) -> Any:
    """A library's object as plain data, without what is each answer's own."""
    value = value.model_dump() if hasattr(value, "model_dump") else value
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items() if name not in OWN}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


async def every(stream: AsyncIterable[Any]) -> list[Any]:
    return [plain(event) async for event in stream]


async def same(ways: Ways, ask: Callable[[str], Awaitable[Any]]) -> Any:
    """What `ask(base URL)` gives, asserted to be equal directly and through the gateway."""
    direct, through = plain(await ask(ways.direct)), plain(await ask(ways.through))
    assert through == direct
    return through


async def same_error(ways: Ways, ask: Callable[[str], Awaitable[Any]], kind: type[Exception]) -> Exception:
    """The error that `ask` raises, asserted to be of this very type, with equal status and body, both ways."""
    raised = []
    for url in (ways.direct, ways.through):
        try:
            await ask(url)
        except kind as error:
            raised.append(error)
        else:
            raise AssertionError(f"{url} raised nothing")
    told = [(type(e), getattr(e, "status_code", None), getattr(e, "body", None), str(e)) for e in raised]
    assert told[0] == told[1]
    assert type(raised[1]) is kind
    return raised[1]
