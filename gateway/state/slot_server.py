"""One backend as the board's writer sees it: its configuration, the last look at it, and what is believed of its slots.

One writer: `gateway.state.board`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from gateway.backends import KINDS
from gateway.backends.base import Kind
from gateway.config import Backend
from gateway.routing.board import Mode, Slot
from gateway.state.content import Content
from gateway.state.shadow import Shadow, Start
from gateway.state.slot_rows import Rows
from gateway.state.trust import Trust
from gateway.values import Probe

DRAINED = 30.0
"""Seconds after which a slot whose client has left counts as free, whatever is seen."""

STALE = 10.0
"""Seconds for which a slot counts as used by somebody else, since it was last seen so."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A request that has ended. slot: that it is believed to have had, by `pinned` for certain; content: what that holds now,
    None where it is not known; sure: by the server's own count; before: what it held; left: when it ended; whole: its prompt
    was read to the end."""

    slot: int | None
    pinned: bool
    content: Content | None
    sure: bool
    before: Content | None
    left: float
    whole: bool = True


@dataclass(slots=True)
class Server:
    """up: it answered when it was last looked at; was_down: it did not, some time since it was last up; mode, shared, context:
    as the board's engines have it; open: requests of ours that it works on, those that hold no lease (embeddings) included;
    unlooked: there was one since the last look at `/slots`; tried: the gateway has run
    a few words in an empty slot, to find the mode; drains: by slot, what was given up there; marked: when a slot was
    last seen at work for somebody else.

    Since the last look at `/slots`: rows: what it showed; tasks: that the server was given; unseen: that it had been given
    before, and that did not show; pending: slots that may have had the task then of a request that had not ended; in_turn: all
    came one after the other and ended well; ended: what is to be found of those that have ended; filled: slots into which the
    gateway itself has put something.
    """

    name: str
    config: Backend | None = None
    probe: Probe | None = None
    up: bool = True
    was_down: bool = False
    circuit_open: bool = False
    mode: Mode = "unknown"
    shared: bool = False
    context: int | None = None
    trust: Trust = field(default_factory=Trust)
    shadow: Shadow = field(default_factory=lambda: Shadow([]))
    open: int = 0
    unlooked: bool = False
    tried: bool = False
    drains: dict[int, Ended] = field(default_factory=dict)
    marked: dict[int, float] = field(default_factory=dict)
    rows: Rows = field(default_factory=dict)
    tasks: int = 0
    unseen: int = 0
    pending: set[int] = field(default_factory=set)
    in_turn: bool = True
    ended: deque[Ended] = field(default_factory=lambda: deque(maxlen=64))
    filled: set[int] = field(default_factory=set)

    @property
    def kind(self) -> Kind:
        """The configured kind; for `auto` what the last look found."""
        configured = self.config.kind if self.config else "auto"
        name = self.probe.kind if self.probe and configured == "auto" else configured
        return KINDS.get(name, KINDS["auto"])

    @property
    def total(self) -> int:
        """Slots that the server says it has and that can be told apart; 0 where there are none."""
        probe = self.probe
        return (probe.slots or 0) if probe and probe.single_model and self.kind.pins else 0

    @property
    def own(self) -> tuple[int, ...]:
        """Numbers of the slots that are this gateway's."""
        wanted = self.config.slots if self.config else None
        return tuple(number for number in range(self.total) if wanted is None or number in wanted)

    @property
    def capacity(self) -> int | None:
        """What the server says that it works on at once; else what the configuration says; else no limit of ours."""
        if self.total:
            return len(self.own) or self.total
        seen = self.probe.slots if self.probe else None
        return seen if seen is not None else self.config.parallel if self.config else None

    def fresh(self) -> int | None:
        """A slot of ours that holds nothing, while the mode is not known, another one holds something, and none was tried."""
        rows = self.rows
        if self.mode != "unknown" or self.tried or any(row.busy for row in rows.values()):
            return None
        if not any(row.tokens for row in rows.values()):
            return None
        empty = (slot.number for slot in self.shadow.slots if slot.idle and not rows[slot.number].tokens)
        return next(empty, None)

    def begins(self) -> None:
        """It was given a request of ours."""
        self.in_turn = self.in_turn and not self.open
        self.open += 1
        self.tasks += 1
        self.unlooked = True

    def ends(self) -> None:
        """It works on one less."""
        self.open = max(0, self.open - 1)

    @property
    def blind(self) -> bool:
        """Whether `/slots` is never looked at, because it tells nothing or nobody needs it."""
        unwanted = self.config is not None and self.config.pin == self.config.snapshots == "never"
        return bool(self.trust.problem) or unwanted

    def key(self, model: str) -> tuple[str, str]:
        """What an engine is known by: a server that has one model ignores its name."""
        return self.name, "" if self.probe and self.probe.single_model else model

    def why_no_pins(self, now: float) -> str:
        """In words for people; "" where requests may be pinned now. The first that holds."""
        config, trust = self.config, self.trust
        if not self.total:
            return "it has no slots that can be told apart"
        if config and config.pin == "never":
            return "the configuration says so"
        if config and config.slots is not None and any(number >= self.total for number in config.slots):
            return f"the configuration names slots that are not there: it has {self.total}"
        if trust.problem:
            return trust.problem
        if not trust.looked or self.mode == "unknown":
            return "it is not known yet what becomes of its idle slots"
        if self.mode == "emptied":
            return "it empties idle slots when another starts"
        if trust.broken:
            return "pinned requests did not find what their slots should have held"
        if self.foreign(now):
            return "somebody else uses its slots"
        return ""

    def fault(self, now: float) -> str:
        """Why requests are not pinned although they could be, in a word of a closed set: `unreadable`, `broken` or `foreign`;
        else ""."""
        if not self.total or (self.config and self.config.pin == "never"):
            return ""
        faults = {"unreadable": bool(self.trust.problem), "broken": self.trust.broken, "foreign": self.foreign(now)}
        return next((word for word, holds in faults.items() if holds), "")

    def foreign(self, now: float) -> bool:
        """Whether somebody else uses its slots, and none of them are this gateway's alone."""
        return self.trust.foreign(now) and (self.config is None or self.config.slots is None)

    def refused(self) -> None:
        """Nobody listens at its address: when somebody does again, it is another process."""
        self.was_down = True
        self.emptied()

    def seats_changed(self) -> bool:
        """Make the list of slots what the server says and the configuration allows. Returns whether it is another one."""
        numbers = self.own or tuple(range(self.total))
        if tuple(slot.number for slot in self.shadow.slots) == numbers:
            return False
        self.restarted()
        self.shadow = Shadow([Slot(number) for number in numbers])
        return True

    def restarted(self) -> None:
        """Another process, or the same one without its caches: nothing is known of its slots any more."""
        self.trust, self.mode, self.shared, self.tried = Trust(), "unknown", False, False
        self.emptied()

    def emptied(self) -> None:
        """It holds nothing any more."""
        self.shadow.clear()
        for slot in self.shadow.slots:
            slot.draining = slot.foreign = False
        self.rows, self.tasks, self.unseen, self.in_turn = {}, 0, 0, True
        for things in (self.drains, self.marked, self.ended, self.filled, self.pending):
            things.clear()

    def cache_told(self, content: Content, start: Start, cached: int) -> None:
        """What a request is said to have found tells of the cache in RAM."""
        self.shadow.told(content, start, cached)
        if start.cached is not None and not start.close:
            self.trust.judge_cache(start.in_slots, start.reused, cached)
            if cached < start.reused / 2:
                self.shadow.forget_older(start.cached)

    def saw(self, probe: Probe) -> None:
        """Take a look at the server."""
        before, self.up = self.probe, probe.up
        if not probe.up:
            self.was_down = self.was_down or not probe.loading
            self.emptied()
            return
        self.probe = probe
        if before is not None and (before.mark != probe.mark or (self.was_down and probe.mark is None)):
            self.restarted()
        elif probe.sleeping:
            self.emptied()
        self.was_down = False
        self.seats_changed()

    def tick(self, now: float) -> bool:
        """End what ends by time. Returns whether anything did."""
        changed = False
        for slot in self.shadow.slots:
            drained = self.drains.get(slot.number)
            if drained is not None and now >= drained.left + DRAINED:
                del self.drains[slot.number]
                slot.draining, changed = False, True
            if slot.foreign and now >= self.marked.get(slot.number, now) + STALE:
                slot.foreign, changed = False, True
        return changed
