"""Putting right what is believed of a server's slots by what `/slots` shows.

A belief that the rows contradict is dropped, or moved to the slot that fits it; what cannot be decided is not believed. One
writer: `gateway.state.board`, which hands its server over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gateway.routing.board import Slot
from gateway.state.content import Content, agreed, cut
from gateway.state.leases import Lease
from gateway.state.shadow import held
from gateway.state.slot_rows import Row, Rows, changed, evidence
from gateway.state.slot_server import Ended, Server

SLACK = 2
"""Tokens by which a count may differ: whether the last one of an answer is in the cache depends on how it ended."""

LIKE = 0.1
"""Share by which the estimate of a prompt may differ from what is read of it."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look. asked, now: when it was asked for, and when the answer had come; working: the gateway itself may be using
    slots, for the sake of a snapshot."""

    rows: Rows
    asked: float
    now: float
    working: bool = False


def correct(server: Server, leases: Sequence[Lease], look: Look) -> bool:
    """Take one look at a server with these requests: the mode, who has which slot, what idle ones hold. Returns whether
    somebody else is there.

    Of a look during which a request came or went nothing is taken but the mode: what it shows may be from before or after.
    """
    rows, news = look.rows, changed(server.rows, look.rows)
    own = server.filled | {lease.slot for lease in leases if lease.works and lease.slot is not None}
    _tell_mode(server, rows, news, own)
    if any(lease.taken > look.asked for lease in leases) or any(one.left > look.asked for one in server.ended):
        return False
    stranger = _more_than_ours(server, rows, news)
    given = {row.number for row in news} | {number for number, row in server.rows.items() if row.busy}
    _find_busy(server, leases, look, given)
    drained = _end_drains(server, leases, rows, given)
    in_order = server.in_turn and _order(server) == [row.number for row in news]
    _check_idle(server, rows, given, drained, in_order)
    server.unseen = max(0, server.open - sum(row.busy for row in rows.values()))
    server.rows, server.tasks, server.in_turn = dict(rows), 0, server.open <= 1
    server.pending = {slot.number for slot in server.shadow.slots if slot.flight is not None and slot.number in given}
    server.ended.clear()
    server.filled.clear()
    return stranger and not look.working


def _tell_mode(server: Server, rows: Rows, news: Sequence[Row], own: set[int]) -> None:
    in_turn = server.in_turn and len(news) <= server.tasks + server.unseen
    seen = evidence(server.rows, rows, in_turn=in_turn, own=own)
    if len(rows) == 1:  # no other slot can empty it
        server.mode = "kept"
    elif seen.kept:
        server.mode, server.shared = "kept", server.shared or seen.emptied  # emptied for want of room in a common context
    elif server.mode == "unknown" and not server.rows and all(row.tokens and not row.busy for row in rows.values()):
        server.mode = "kept"  # all were used one after the other before we came, as far as one can see
    elif seen.emptied:
        server.mode, server.shared = "emptied", True
    server.context = max((row.context for row in rows.values() if row.context is not None), default=None)
    if server.context is not None and sum(row.tokens for row in rows.values()) > server.context:
        server.shared = False


def _more_than_ours(server: Server, rows: Rows, news: Sequence[Row]) -> bool:
    """Whether more slots are at work, or have been given tasks, than this gateway can have given any."""
    busy = sum(row.busy for row in rows.values())
    return busy > server.open + len(server.drains) or (bool(server.rows) and len(news) > server.tasks + server.unseen)


def _find_busy(server: Server, leases: Sequence[Lease], look: Look, given: set[int]) -> None:
    """Requests whose slot was guessed, and that are at work in another one, are moved there."""
    taken = {lease.slot for lease in leases} | server.drains.keys()
    free = [slot for slot in server.shadow.slots if look.rows[slot.number].busy and slot.number not in taken]
    astray = [lease for lease in leases if lease.slot is None or not look.rows[lease.slot].busy]
    for slot in sorted(free, key=lambda slot: look.rows[slot.number].task):
        fitting = next((lease for lease in astray if _like(lease, look.rows[slot.number])), None)
        gone = next((number for number in server.drains if number not in given), None)
        if fitting is not None:
            _move(server, fitting, slot)
            astray.remove(fitting)
        elif gone is not None:
            _move_drain(server, gone, slot)
        else:
            slot.held, slot.foreign, server.marked[slot.number] = None, True, look.now


def _like(lease: Lease, row: Row) -> bool:
    return row.prompt <= lease.prompt * (1 + LIKE) + SLACK


def _move(server: Server, lease: Lease, slot: Slot) -> None:
    old = server.shadow.slot(lease.slot) if lease.slot is not None else None
    if old is not None and old.flight == lease.number:
        old.flight, old.held = None, lease.before
    lease.slot, lease.running.slot, lease.before = slot.number, slot.number, held(slot)
    slot.flight, slot.held, slot.free_at, slot.foreign = lease.number, lease.content, lease.running.free_at, False


def _move_drain(server: Server, number: int, slot: Slot) -> None:
    ended = server.drains.pop(number)
    if (old := server.shadow.slot(number)) is not None:
        old.draining, old.held = False, ended.before
    server.drains[slot.number] = replace(ended, before=held(slot))
    slot.draining, slot.held = True, None


def _end_drains(server: Server, leases: Sequence[Lease], rows: Rows, given: set[int]) -> set[int]:
    """Slots that have stopped since their client left: as much of the prompt is there as the count says. Returns which."""
    stopped = set()
    others: list[Ended | Lease] = [*server.ended, *server.drains.values(), *leases]
    for slot in server.shadow.slots:
        one, row = server.drains.get(slot.number), rows[slot.number]
        if one is None or row.busy:
            continue
        del server.drains[slot.number]
        slot.draining = False
        left = _read_so_far(one, row.tokens) if slot.number in given else one.before
        rivals = [other.content for other in others if other is not one and other.content and not (one.pinned and other.pinned)]
        slot.held = agreed(left, rivals) if left else None
        stopped.add(slot.number)
    return stopped


def _read_so_far(ended: Ended, tokens: int) -> Content | None:
    """What a request that was given up has left behind. Its own tokens are an estimate, so that a beginning is taken as a bit
    longer than it seems."""
    content = ended.content
    if content is None or not tokens:
        return None
    if ended.whole and tokens >= (1 - LIKE) * content.prompt:
        return replace(content, prompt=min(content.prompt, tokens), tokens=tokens)
    left = cut(content, round(min(tokens, content.prompt) / (1 + LIKE)))
    return replace(left, tokens=tokens) if left is not None else None


def _check_idle(server: Server, rows: Rows, given: set[int], drained: set[int], in_order: bool) -> None:
    """What idle slots are believed to hold must be what they hold by the count, and by who was there last. in_order: requests
    came one after the other, and slots were given tasks in the order that was believed, so that equal counts are no doubt."""
    last = {one.slot: one for one in server.ended if one.slot is not None}
    lost = [one for one in server.ended if one.slot is None]
    wrong: list[Slot] = []
    for slot in server.shadow.slots:
        row, one = rows[slot.number], last.get(slot.number)
        if slot.flight is not None or slot.draining or row.busy:
            continue
        slot.foreign = False
        if row.tokens == 0:
            lost += [one] if one is not None and slot.number not in given else []
            _emptied(server, slot)
        elif slot.number in drained:
            slot.held = slot.held if _fits(held(slot), row) else None
        elif slot.number not in given:
            if one is not None and slot.held is one.content:
                _came_before(server, slot, one, row, lost)
            slot.held = slot.held if _fits(held(slot), row) else None
        elif one is None or not (one.sure and _fits(one.content, row)):
            lost += [one] if one is not None else []
            wrong.append(slot)
        elif not in_order:
            slot.held = _certain(one, row, [other for other in server.ended if not (one.pinned and other.pinned)])
    for slot in wrong:
        row = rows[slot.number]
        fitting = [one for one in lost if one.sure and one.content is not None and _fits(one.content, row)]
        alike = sum(abs(rows[other.number].tokens - row.tokens) <= SLACK for other in wrong)
        slot.held = _certain(fitting[0], row, server.ended) if len(fitting) >= alike else None


def _order(server: Server) -> list[int]:
    """Slots in the order of the last request that each is believed to have had."""
    last = {one.slot: None for one in reversed(server.ended) if one.slot is not None}
    return list(last)[::-1]


def _came_before(server: Server, slot: Slot, one: Ended, row: Row, lost: list[Ended]) -> None:
    """The slot has had no task since the last look. Either that saw the one of this request, or it never was there."""
    if slot.number in server.pending and one.sure and _fits(one.content, row):
        slot.held = _certain(one, row, [replace(one, content=one.before), *server.ended])
    else:
        lost.append(one)
        slot.held = one.before


def _certain(one: Ended, row: Row, ended: Sequence[Ended]) -> Content | None:
    """What it holds if others that ended would fit as well."""
    others = [other.content for other in ended if other is not one and other.content is not None and _fits(other.content, row)]
    return agreed(one.content, others) if one.content is not None else None


def _fits(content: Content | None, row: Row) -> bool:
    return content is None or abs(content.tokens - row.tokens) <= SLACK


def _emptied(server: Server, slot: Slot) -> None:
    """Nothing is there. In a server that empties idle slots it went to the cache in RAM."""
    content = held(slot)
    if content is not None and server.mode == "emptied":
        server.shadow.save(content)
    slot.held = None
