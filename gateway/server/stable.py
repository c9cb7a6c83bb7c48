"""The canonical form on the data path: which mode applies, what came of it, and what is learned from the replies.

On any doubt a call goes out as its client sent it; nothing here fails a request.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gateway.canonical.canonicalize import Canonicalizer
from gateway.canonical.digests import reply
from gateway.canonical.notes import heard
from gateway.canonical.result import Result
from gateway.canonical.settings import Mode
from gateway.clock import Clock
from gateway.config.canonical import Canonical
from gateway.dialects.prompt import Prompt
from gateway.dialects.prompt_read import read
from gateway.dialects.spoken import spoken
from gateway.errors import BadRequest
from gateway.events import Bus, Canonicalized, RewriteRejected
from gateway.logs import printable
from gateway.state.memory import Memory
from gateway.values import Call

log = logging.getLogger("warmgate.canonical")

MODE_HEADER = "X-Warmgate-Mode"
MODES: tuple[Mode, ...] = ("rewrite", "observe", "off")
REJECTIONS = 2  # edited bodies that a server may refuse before a route is only observed
ROUTES = 1024  # routes whose rejections are counted
CLIENTS = 256  # clients that have been told of their first edit


@dataclass(frozen=True, slots=True)
class Stable:
    """A call in its canonical form. call: what is sent; original: as the client sent it; result: None: not looked at;
    mode: the one that applied."""

    call: Call
    original: Call
    result: Result | None = None
    mode: Mode = "off"

    @property
    def edited(self) -> bool:
        return self.call is not self.original

    @property
    def tries(self) -> tuple[Call, ...]:
        """What is sent, in turn, until a server does not refuse it."""
        return (self.call, self.original) if self.edited else (self.original,)

    @property
    def listens(self) -> bool:
        """Whether a note was sent with a new turn, which is known again by the reply that follows it."""
        return self.edited and self.result is not None and self.result.sent is not None

    @property
    def header(self) -> str:
        """Value of X-Warmgate-Edits: rule names and counts, no text."""
        counts = self.result.counts if self.result and self.edited else {}
        return ", ".join(f"{rule}={count}" for rule, count in counts.items())


class Stabilizer:
    """Owns the canonicalizer of one configuration. Written by the event loop only."""

    def __init__(self, config: Canonical, memory: Memory, bus: Bus, clock: Clock):
        self._config, self._memory, self._bus, self._clock = config, memory, bus, clock
        self._canonicalizer = Canonicalizer(config.settings(memory.secret))
        self._rejected: OrderedDict[bytes, int] = OrderedDict()
        self._told: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    def make(self, call: Call, names: Sequence[str], *, counting: bool) -> Stable:
        """names: all names of the call's model; counting: its tokens are only counted.

        Raises BadRequest for an unknown mode in the request's header.
        """
        mode = self._mode(call, names)
        if mode == "off" or call.body is None:
            return Stable(call, call)
        prompt = read(call.path, call.body)
        if prompt is None:
            return Stable(call, call)
        result = self._canonicalize(mode, call, prompt)
        if not counting:  # a count begins no turn
            self._memory.remember(result.remember)
        self._bus.publish(Canonicalized(result.counts, tuple(found.edit.rule for found in result.findings), result.reason))
        if result.body is call.raw:
            return Stable(call, call, result, mode)
        self._tell_once(call, result)
        return Stable(replace(call, raw=result.body), call, result, mode)

    def learn(self, stable: Stable, sent: Call, transcript: bytearray | None, *, streaming: bool) -> None:
        """A reply is complete. sent: the call that it answers; transcript: its bytes, if the stable call asked for them."""
        if stable.edited and sent is stable.original:
            self._refused(stable)
            return
        if stable.edited and stable.result:
            self._rejected.pop(stable.result.route, None)  # only refusals in a row say that it is the edit
        if transcript and stable.result and stable.result.sent:
            said = spoken(sent.dialect, bytes(transcript), streaming=streaming)
            if said is not None:
                digest = reply(self._memory.secret, said.text, said.calls)
                self._memory.remember(heard(stable.result.sent, digest, self._memory.ledger))
                self._memory.keep_used()  # what was read here was used now, not when the next request comes

    def _refused(self, stable: Stable) -> None:
        """A server refused the edited body and took the client's own."""
        route = stable.result.route if stable.result else b""
        count = self._rejected[route] = self._rejected.pop(route, 0) + 1
        while len(self._rejected) > ROUTES:
            self._rejected.popitem(last=False)
        self._bus.publish(RewriteRejected())
        if count == REJECTIONS:
            log.warning(
                "a server refused edited prompts of model %s %d times; they are only observed from now on",
                printable(stable.call.model or "?", 80),
                count,
            )

    def _mode(self, call: Call, names: Sequence[str]) -> Mode:
        asked = call.headers.get(MODE_HEADER)
        if asked is not None:
            found = next((mode for mode in MODES if mode == asked.strip().lower()), None)
            if found is None:
                raise BadRequest(f"{MODE_HEADER} is one of {', '.join(MODES)}.", code="invalid_mode")
            return found
        return "off" if self._config.never.covers(call.client.agent, names) else self._config.mode

    def _canonicalize(self, mode: Mode, call: Call, prompt: Prompt) -> Result:
        ledger, now = self._memory.ledger, self._clock.wall()
        result = self._canonicalizer.canonicalize(call.raw, prompt, call.client, ledger, now, mode)
        if mode == "rewrite" and result.body is not call.raw and self._rejected.get(result.route, 0) >= REJECTIONS:
            result = self._canonicalizer.canonicalize(call.raw, prompt, call.client, ledger, now, "observe")
        self._memory.keep_used()
        return result

    def _tell_once(self, call: Call, result: Result) -> None:
        """One line for the operator when a client's prompt is edited for the first time."""
        who = (call.client.key, call.client.address, call.client.agent)
        if who in self._told:
            return
        self._told[who] = None
        while len(self._told) > CLIENTS:
            self._told.popitem(last=False)
        log.info(
            "prompts of %s are given a stable prefix: %s. See it: `warmgate canon`, or the reply header X-Warmgate-Edits. "
            "Switch it off: `canonical.never.clients`, or the request header %s: off",
            printable(call.client.agent or call.client.address, 80),
            ", ".join(f"{rule} {count}x" for rule, count in result.counts.items()),
            MODE_HEADER,
        )
