"""What `/slots` of a llama.cpp server shows, and what two looks at it tell of its mode. Pure.

Source: tools/server README and measurements on b11434-b11549: `n_prompt_tokens` counts what a slot holds, answer included, all
but the last token of it; it is missing until the slot has had a task, and falls to 0 when the slot is emptied. `id_task` rises,
by more than one from task to task. While a slot is at work, its cached and processed tokens together are those of its prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Rows = Mapping[int, "Row"]


@dataclass(frozen=True, slots=True)
class Row:
    """One slot. task: number of its newest task, -1 if it had none; tokens: that it holds; prompt: of its prompt, as far as
    that has been read, 0 while it is idle; context: tokens that it may hold at most, None where that is not told."""

    number: int
    busy: bool
    task: int
    tokens: int
    prompt: int
    context: int | None


def read(rows: Sequence[Mapping[str, Any]]) -> dict[int, Row] | None:
    """The rows by number; None if this is not what llama.cpp shows."""
    found = {}
    for row in rows:
        number, busy = row.get("id"), row.get("is_processing")
        if not isinstance(number, int) or not isinstance(busy, bool):
            return None
        task, context = row.get("id_task"), row.get("n_ctx")
        found[number] = Row(
            number,
            busy,
            task if isinstance(task, int) else -1,
            _count(row.get("n_prompt_tokens")),
            _count(row.get("n_prompt_tokens_cache")) + _count(row.get("n_prompt_tokens_processed")) if busy else 0,
            context if isinstance(context, int) and context > 0 else None,
        )
    return found


def changed(before: Rows, rows: Rows) -> list[Row]:
    """Slots that were given a task between two looks, in the order of those tasks."""
    return sorted(
        (row for row in rows.values() if row.task >= 0 and row.task != _task(before, row.number)), key=lambda row: row.task
    )


@dataclass(frozen=True, slots=True)
class Evidence:
    """kept, emptied: whether an idle slot was seen to keep what it held when another was given a task, and to lose it."""

    kept: bool = False
    emptied: bool = False


def evidence(before: Rows, rows: Rows, *, in_turn: bool, own: Iterable[int] = ()) -> Evidence:
    """What two looks tell. in_turn: all tasks between them came one after the other and ended well; own: slots into which the
    gateway itself has put something, or nothing, since the first look."""
    news = changed(before, rows)
    if not news:
        return Evidence()
    kept = emptied = False
    for row in rows.values():
        old = before.get(row.number)
        if row.busy or row.number in own or news == [row]:
            continue
        if old is not None and old.task == row.task and not old.busy:  # idle all the time
            kept |= old.tokens > 0 and row.tokens == old.tokens
            emptied |= old.tokens > 0 and row.tokens == 0
        elif in_turn and row.task >= 0 and row is not news[-1]:
            kept |= row.tokens > 0
            emptied |= row.tokens == 0
    return Evidence(kept, emptied)


def _task(rows: Rows, number: int) -> int:
    row = rows.get(number)
    return row.task if row else -1


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
