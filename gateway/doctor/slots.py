"""Which mode the slots of a llama.cpp server are in. `/props` does not say; what `/slots` says after a prompt or two does.

By default the server puts idle slots into a cache in memory and empties them as soon as another works; with `-np N`, slots keep
what they hold. Source: measured. Only slots that never held anything are used for looking, so no prompt of a user is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gateway.contract.bodies import CHAT
from gateway.doctor.subject import Subject

State = Literal["emptied", "kept", "one", "unknown"]

WORDS = 8
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Slots:
    """state: what becomes of an idle slot when another works; count: slots; context: tokens of each; told: how it was seen."""

    state: State
    count: int
    context: int | None
    told: str


async def find(subject: Subject) -> Slots:
    """Asked once. Never of a sleeping server, which it would wake, nor of a router, which it would have load a model."""
    if "slots" not in subject.memo:
        subject.memo["slots"] = await _find(subject)
    found: Slots = subject.memo["slots"]
    return found


async def _find(subject: Subject) -> Slots:
    count = subject.seen.slots or 0
    rows = await _rows(subject)
    if rows is None:
        return Slots("unknown", count, None, "/slots does not answer (is it switched off with --no-slots?)")
    context = next((row["n_ctx"] for row in rows if isinstance(row.get("n_ctx"), int)), None)
    if len(rows) == 1:
        return Slots("one", 1, context, "/slots has one row")
    if (state := read(rows)) != "unknown":
        return Slots(state, len(rows), context, "/slots shows it")
    if any(row.get("is_processing") for row in rows) or not await _use(subject, rows):
        return Slots("unknown", len(rows), context, "its slots were in use, and none was fresh to try it with")
    after = await _rows(subject) or ()
    return Slots(read(after), len(rows), context, "/slots shows it after a prompt in a fresh slot")


def read(rows: Rows) -> State:
    """What the rows of idle slots prove: an idle slot that held a prompt and is empty now, or two that hold one at once."""
    held = [row.get("n_prompt_tokens") for row in rows if not row.get("is_processing")]
    if any(tokens == 0 for tokens in held):
        return "emptied"
    return "kept" if sum(isinstance(tokens, int) and tokens > 0 for tokens in held) >= 2 else "unknown"


async def _use(subject: Subject, rows: Rows) -> bool:
    """Have a prompt in two slots, one after the other, using fresh slots only. False if there are not enough of them."""
    fresh = [row["id"] for row in rows if "n_prompt_tokens" not in row and isinstance(row.get("id"), int)]
    needed = 1 if len(fresh) < len(rows) else 2
    if len(fresh) < needed:
        return False
    for slot in fresh[:needed]:
        await subject.server.usage(CHAT, subject.server.text(WORDS), id_slot=slot)
    return True


async def _rows(subject: Subject) -> Rows | None:
    heard = await subject.server.get("/slots")
    return (
        [row for row in heard.body if isinstance(row, dict)] if heard.status == 200 and isinstance(heard.body, list) else None
    )
