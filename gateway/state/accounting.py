"""What each prompt reused, should have reused, and why it did not: the one writer of the index, the rates and what they are
compared with. On the event loop; nothing here fails a request.

begin: a prompt is about to be sent -> Trace          settle: its request has ended -> Settled
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import orjson

from gateway.canonical import digests
from gateway.canonical.analysis import Memo
from gateway.canonical.result import Result
from gateway.canonical.settings import Mode
from gateway.clock import Clock
from gateway.dialects.prompt import Message, Prompt, Text
from gateway.dialects.prompt_read import PARAMETERS, read
from gateway.events import BackendGone, BackendProbed, BackendRefused, Bus, IndexChanged, RequestLeft, RequestStarted
from gateway.prefix import shape
from gateway.prefix.chain import Chain, build, tools_text
from gateway.prefix.index import Index, Place, Warm
from gateway.prefix.message import dump
from gateway.prefix.nodes import Nodes
from gateway.state.earlier import Earliers
from gateway.state.rates import Rate, Ratio
from gateway.state.settled import UNSURE, Doubt, Settled, explain_later
from gateway.state.trace import Sent, Trace
from gateway.state.verdicts import Judge, Seen, expected
from gateway.values import Call, Probe, Record, Usage

log = logging.getLogger("warmgate.prefix")

RAW_NODES = 20_000
"""Nodes of the index of what servers would hold without the canonical form."""

READ_FULLY = 0.25
"""Seconds that reading a whole prompt must take before its share in the cache is inferred from the time to the first token."""

MODELS = 64
"""Models and places of which something is learned."""

MEMO = 64
"""Clients and lists of tools that are known again."""


class Accounting:
    """Subscriber of the bus, to what it `hears`. keep, store: as in the configuration, `explain`."""

    hears = (RequestStarted, RequestLeft, BackendProbed, BackendRefused, BackendGone)

    def __init__(self, secret: bytes, clock: Clock, bus: Bus, keep: int = 500, store: str = "hashes") -> None:
        self._secret, self._clock, self._bus = secret, clock, bus
        self.index, self._raw_index = Index(), Index(RAW_NODES)
        self._rates: dict[Place, Rate] = {}
        self._ratios: dict[str, Ratio] = {}
        self._nodes = Nodes(secret)
        self._scopes: Memo[bytes] = Memo(MEMO)
        self._tools: Memo[str] = Memo(MEMO)
        self._read: tuple[Mapping[str, Any], Prompt | None] | None = None  # of the request that is sorted, until it begins
        self._running: dict[str, Trace] = {}
        self._busy: Counter[str] = Counter()  # running prompts by backend
        self._beginnings: Counter[tuple[str, tuple[bytes, ...]]] = Counter()  # and by their first node
        self._latest: dict[str, float] = {}
        self._probes: dict[str, Probe] = {}
        self._down: set[str] = set()  # backends that were not there when they were last looked at
        self._doubts: dict[str, float] = {}  # by backend: when the first prompt began that may be the first of a new process
        self._session_headers: tuple[str, ...] = shape.SESSION_HEADERS
        self._orders: dict[str, int] = defaultdict(int)  # above 0: the model's template has the tools first
        self.earlier = Earliers(keep if store != "none" else 0)
        self._judge = Judge(secret, self.earlier, store)
        self.promised: Callable[[int], int | None] = lambda number: None
        """Tokens that a flight was promised by what is known of the server's slots, None where nothing is."""

    def configure(self, keep: int, store: str, session_headers: Sequence[str] = ()) -> None:
        """session_headers: more of those in which clients name their session."""
        self._session_headers = (*shape.SESSION_HEADERS, *session_headers)
        self.earlier.resize(keep if store != "none" else 0)
        self._judge.store = store

    def forget(self) -> None:
        for part in (self.index, self._raw_index, self.earlier, self._nodes, self._judge):
            part.forget()
        self._tools, self._read = Memo(MEMO), None

    # a request begins

    def kind(self, call: Call) -> Literal["main", "side"]:
        """Whether this is a turn of a conversation or a side request."""
        if call.body is None or (prompt := read(call.path, call.body)) is None:
            return "main"
        self._read = call.body, prompt
        return shape.kind(prompt, call.body, lambda: self.earlier.heads(self._scope(call)))

    def begin(self, call: Call, label: str, result: Result | None, mode: Mode, rules: Sequence[str] = ()) -> Trace | None:
        """A prompt is about to be sent. call: as the client sent it; label: the model; result: its canonical form, None if
        that was not looked at; mode, rules: those in force. Returns None if there is no prompt to go by.
        """
        try:
            return self._begin(call, label, result, mode, rules)
        except Exception:
            log.exception("a prompt could not be looked at")
            return None

    def _begin(self, call: Call, label: str, result: Result | None, mode: Mode, rules: Sequence[str]) -> Trace | None:
        prompt = self._prompt(call)
        if prompt is None or call.body is None:
            return None
        model = label if label != "other" else call.model or ""
        raw = sent = self._sent(prompt, tools_text(prompt), model)
        if result is not None and result.body is not call.raw:
            ordered = next((edit.after for edit in result.edits if edit.rule == "tools"), None)
            sent = self._sent(result.prompt, raw.tools if ordered is None else self._plain(ordered), model)
        if self._raw_index:
            raw = Sent(prompt, raw.tools, raw.chain, _deeper(raw.warm, self._raw_index.match(raw.chain, model)))
        named = shape.named_session(call.headers, call.body, self._session_headers)
        trace = Trace(
            id=call.id,
            label=model,
            named=named,
            session=shape.session(self._secret, named, sent.chain),
            scope=self._scope(call),
            side=call.kind == "side",
            raw=raw,
            sent=sent,
            edits=result.counts if result and sent.chain is not raw.chain else {},
            route=result.route if result else b"",
            began=self._clock.now(),
            mode=mode,
            rules=tuple(rules),
            latest=dict(self._latest),
            beside=frozenset(name for name in self._busy if (name, sent.chain.digests[:1]) in self._beginnings),
            crowded=frozenset(self._busy),
        )
        self._running[call.id] = trace
        return trace

    def _prompt(self, call: Call) -> Prompt | None:
        """The prompt of a call, as it was read when the call was sorted; raw text is one message."""
        (body, prompt), self._read = self._read or (None, None), None
        if body is not None and body is call.body:
            return prompt
        return _prompt(call)

    def _sent(self, prompt: Prompt, tools: str, model: str) -> Sent:
        first = self._orders[model] > 0
        chain = build(self._secret, prompt, model, tools, tools_first=first, nodes=self._nodes)
        return Sent(prompt, tools, chain, self.index.match(chain, model))

    def _plain(self, tools: str) -> str:
        """An edited list of tools in the spelling in which all are compared."""
        return self._tools.get(tools, lambda: dump(orjson.loads(tools)).decode("utf-8", "replace"))

    def _scope(self, call: Call) -> bytes:
        def make() -> bytes:
            who = digests.client(call.client)
            return digests.digest(self._secret, call.path.encode(), digests.encode(call.model or ""), who)

        return self._scopes.get((call.path, call.model, call.client), make)

    def chain(self, call: Call, model: str) -> Chain | None:
        """The chain of a call's prompt, which is not about to be sent; None if it has none. model: its label."""
        prompt = _prompt(call)
        return None if prompt is None else self._sent(prompt, tools_text(prompt), model).chain

    def warm(self, chain: Chain, model: str) -> Mapping[str, int]:
        """How many nodes of a chain each backend is believed to hold now."""
        return {backend: warm.nodes for backend, warm in self.index.match(chain, model).items()}

    def ratio(self, model: str) -> float:
        """Tokens for each character of a chain, as far as is known. model: its label."""
        return self._ratio(model).value

    def rate(self, backend: str, model: str) -> Rate:
        """How long the backend takes to read prompts for a model, which goes on learning. model: its label."""
        return self._rate(Place(backend, model))

    # a request has ended

    def settle(self, record: Record, trace: Trace | None, *, edited: bool) -> Settled:
        """The record with what its prompt reused, lost and saved. edited: the canonical form was sent."""
        if trace is None:
            return Settled(record)
        self._running.pop(trace.id, None)
        self._leave(trace)
        try:
            return self._settle(record, trace, edited)
        except Exception:
            log.exception("a request could not be explained")
            return Settled(record)

    def review(self, settled: Settled) -> Settled:
        """The same after another look at the backend: nobody doubts it any longer."""
        if settled.doubt is None:
            return settled
        record, warm = settled.record, settled.doubt.warm
        if (cause := self.index.cause(warm)) not in (None, "evicted"):
            record = replace(record, reason=cause)
        elif record.reason == "evicted" and not record.usage.cached:
            self.index.evicted(warm)
        return Settled(record, explain_later(settled.doubt.compared, record))

    def _settle(self, record: Record, trace: Trace, edited: bool) -> Settled:
        sent = trace.went_out(edited) if trace.edits else trace.sent
        edits = trace.edits if edited else {}
        answered = record.first is not None or record.usage.prompt is not None
        if record.backend is None or not answered or record.status >= 400:
            return Settled(replace(record, session=trace.session, edits=edits))
        place, ratio = Place(record.backend, trace.label), self._ratio(trace.label)
        rate, warm = self._rate(place), sent.warm.get(place.backend)
        usage = self._inferred(record, warm, rate)
        seen = Seen(trace, sent, place, usage, ratio.value, rate)
        judged = self._judge.judge(seen)
        ratio.learn(usage.prompt or 0, sent.chain.size)
        self._learn_order(seen, judged.tools_first)
        self._keep(place, trace, sent, usage, self._clock.now())
        saved = self._saved(trace, sent, place, usage, rate, ratio.value)
        self._bus.publish(IndexChanged(len(self.index), self._working_set()))
        record = replace(record, session=trace.session, edits=edits, usage=usage, saved=saved, **judged.fields)
        if trace.promised is not None:
            record = replace(record, expected=max(0, min(trace.promised, (usage.prompt or trace.promised + 1) - 1)))
        settled = Settled(record, explain_later(judged.compared, record))
        if warm is None or warm.cause is not None or not judged.missing or judged.reason not in UNSURE:
            return settled
        settled = replace(settled, doubt=Doubt(warm, judged.compared))
        if (probe := self._probes.get(place.backend)) is None or probe.mark is None:
            return self.review(settled)  # a look at it would tell nothing
        self._doubts.setdefault(place.backend, trace.began)
        return settled

    def _keep(self, place: Place, trace: Trace, sent: Sent, usage: Usage, now: float) -> None:
        """What was sent is there now. What the client wrote would be, without the gateway; it is kept where it differs."""
        self.index.keep(sent.chain, place, now, usage.prompt, usage.completion)
        if trace.raw.chain is not sent.chain:
            raw = usage.prompt if usage.prompt is None else round(usage.prompt * trace.raw.chain.size / (sent.chain.size or 1))
            self._raw_index.keep(trace.raw.chain, place, now, raw, usage.completion)
        self._latest[place.backend] = now

    def _inferred(self, record: Record, warm: Warm | None, rate: Rate) -> Usage:
        """The usage, with a count that is inferred from times where none is reported; the rate learns from what is reported,
        and from prompts of which nothing can have been reused."""
        usage, prompt = record.usage, record.usage.prompt
        seconds = usage.prefill_ms / 1000 if usage.prefill_ms is not None else None
        exact = seconds is not None
        if seconds is None and record.stream and record.ttft is not None:
            seconds = record.ttft - record.queue
        rate.told = rate.told or usage.cached is not None
        if prompt is None or seconds is None:
            return usage
        if usage.cached is not None:
            rate.learn(usage.cached, prompt, seconds)
            return usage
        if warm is None:
            rate.learn(0, prompt, seconds)
            return usage
        whole = rate.seconds(0, prompt) or 0.0
        cached = rate.cached(prompt, seconds) if exact or whole >= READ_FULLY else None
        return usage if cached is None else replace(usage, cached=cached, source="inferred")

    def _saved(self, trace: Trace, sent: Sent, place: Place, usage: Usage, rate: Rate, ratio: float) -> Mapping[str, float]:
        """Seconds of prefill that were saved: `server` is what the client's own prompts would have found there."""
        if not usage.cached or usage.prompt is None or (whole := rate.seconds(0, usage.cached)) is None:
            return {}
        own = usage.cached
        if trace.raw.chain is not sent.chain:
            own = min(own, expected(trace.raw.warm.get(place.backend), trace.raw.chain, ratio, usage.prompt))
        server = rate.seconds(0, own) or 0.0
        return {"server": server, "canonical": max(0.0, whole - server)}

    def _learn_order(self, seen: Seen, tools_first: bool | None) -> None:
        if tools_first is not None:
            vote = self._orders[seen.trace.label] + (1 if tools_first else -1)
            self._orders[seen.trace.label] = max(-2, min(2, vote))

    def _ratio(self, model: str) -> Ratio:
        _bound(self._ratios)
        return self._ratios.setdefault(model, Ratio())

    def _rate(self, place: Place) -> Rate:
        _bound(self._rates)
        return self._rates.setdefault(place, Rate())

    def _working_set(self) -> int:
        return sum(round(size * self._ratio(place.model).value) for place, size in self.index.characters().items())

    # what the backends tell

    def on_event(self, event: Any) -> None:
        """Subscriber of the bus."""
        if isinstance(event, RequestStarted):
            if (trace := self._running.get(event.id)) is not None:
                self._enter(trace, event.backend)
                trace.promised = self.promised(event.number)
        elif isinstance(event, RequestLeft):
            if (trace := self._running.get(event.id)) is not None:
                self._leave(trace)
        elif isinstance(event, BackendProbed):
            self._probed(event.name, event.probe, event.seconds)
        elif isinstance(event, BackendRefused):
            for index in (self.index, self._raw_index):
                index.drop(event.name, "backend_restarted", self._clock.now())
        elif isinstance(event, BackendGone):
            self._probes.pop(event.name, None)
            self._doubts.pop(event.name, None)
            self._down.discard(event.name)
            for index in (self.index, self._raw_index):
                index.gone(event.name)

    def _enter(self, trace: Trace, backend: str) -> None:
        self._leave(trace)
        trace.backend = backend
        self._busy[backend] += 1
        self._beginnings[backend, trace.beginning] += 1

    def _leave(self, trace: Trace) -> None:
        backend, trace.backend = trace.backend, None
        if backend is not None:
            _decrement(self._busy, backend)
            _decrement(self._beginnings, (backend, trace.beginning))

    def _probed(self, backend: str, probe: Probe, seconds: float) -> None:
        """A new process has nothing; a model that is not loaded has nothing; a sleeping server has nothing."""
        before = self._probes.get(backend)
        if not probe.up:
            self._down |= {backend} if not probe.loading else set()
            return
        self._probes[backend] = probe
        came_back = backend in self._down and before is not None and before.mark is None
        self._down.discard(backend)
        now = self._clock.now()
        since = self._doubts.pop(backend, now)
        away = {model.name.removesuffix(":latest") for model in probe.models if model.resident is False}
        if self._latest.get(backend, 0.0) > now - seconds:
            away = set()  # loaded for an answer that ended while the server was looked at
        for index in (self.index, self._raw_index):
            if came_back or (before is not None and before.mark != probe.mark):
                index.drop(backend, "backend_restarted", since)
            elif probe.sleeping and not (before and before.sleeping):
                index.drop(backend, "model_loaded", now)
            for model in index.models(backend):
                if model.removesuffix(":latest") in away:
                    index.drop(backend, "model_loaded", now, model)


def _decrement(counts: Counter[Any], key: Any) -> None:
    counts[key] -= 1
    if counts[key] <= 0:
        del counts[key]


def _deeper(one: Mapping[str, Warm], other: Mapping[str, Warm]) -> dict[str, Warm]:
    """By backend, the one of which more is resident."""
    return {**one, **{name: warm for name, warm in other.items() if name not in one or warm.nodes > one[name].nodes}}


def _bound(known: dict[Any, Any]) -> None:
    while len(known) > MODELS:
        del known[next(iter(known))]


def _prompt(call: Call) -> Prompt | None:
    """The prompt of a call; raw text is one message."""
    if call.body is None:
        return None
    if (prompt := read(call.path, call.body)) is not None:
        return prompt
    text = call.body.get("prompt")
    if not isinstance(text, str) or not text:
        return None
    message = Message("user", (Text(("prompt",), text),), {"role": "user", "content": text})
    parameters = {name: call.body[name] for name in PARAMETERS if name in call.body}
    return Prompt(call.path, call.model or "", (), (message,), None, parameters)
