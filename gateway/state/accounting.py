"""What each prompt reused, should have reused, and why it did not: the one writer of the index, the rates and what they are
compared with. On the event loop; nothing here fails a request.

begin: a prompt is about to be sent -> Trace          settle: its request has ended -> (Record, explanation)
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from gateway.canonical import digests
from gateway.canonical.result import Result
from gateway.canonical.settings import Mode
from gateway.clock import Clock
from gateway.dialects.prompt import Message, Prompt, Text
from gateway.dialects.prompt_read import PARAMETERS, read
from gateway.events import BackendGone, BackendProbed, Bus, IndexChanged, RequestLeft, RequestStarted
from gateway.prefix import shape
from gateway.prefix.chain import Chain, build, tools_text
from gateway.prefix.index import Index, Place, Warm
from gateway.state.earlier import Earliers
from gateway.state.rates import Rate, Ratio
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


class Accounting:
    """keep, store: as in the configuration, `explain`."""

    def __init__(self, secret: bytes, clock: Clock, bus: Bus, keep: int = 500, store: str = "hashes") -> None:
        self._secret, self._clock, self._bus = secret, clock, bus
        self.index, self._raw_index = Index(), Index(RAW_NODES)
        self._rates: dict[Place, Rate] = {}
        self._ratios: dict[str, Ratio] = {}
        self._running: dict[str, Trace] = {}
        self._latest: dict[str, float] = {}
        self._probes: dict[str, Probe] = {}
        self._down: set[str] = set()  # backends that were not there when they were last looked at
        self._orders: dict[str, int] = defaultdict(int)  # above 0: the model's template has the tools first
        self.earlier = Earliers(keep if store != "none" else 0)
        self._judge = Judge(secret, self.earlier, store)

    def configure(self, keep: int, store: str) -> None:
        self.earlier.resize(keep if store != "none" else 0)
        self._judge.store = store

    def forget(self) -> None:
        for part in (self.index, self._raw_index, self.earlier):
            part.forget()
        self._judge.forget()

    # a request begins

    def kind(self, call: Call) -> Literal["main", "side"]:
        """Whether this is a turn of a conversation or a side request."""
        prompt = None if call.body is None else read(call.path, call.body)
        if prompt is None or call.body is None:
            return "main"
        return shape.kind(prompt, call.body, self.earlier.heads(self._scope(call)))

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
        prompt = _prompt(call)
        if prompt is None or call.body is None:
            return None
        model = label if label != "other" else call.model or ""
        raw = self._sent(prompt, None, model, self._raw_index)
        sent = Sent(prompt, raw.tools, raw.chain, self.index.match(raw.chain, model))
        if result is not None and result.body is not call.raw:
            ordered = next((edit.after for edit in result.edits if edit.rule == "tools"), None)
            sent = self._sent(result.prompt, ordered.encode() if ordered else None, model, self.index)
        named = shape.named_session(call.headers, call.body)
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
            mode=mode,
            rules=tuple(rules),
            latest=dict(self._latest),
            beside=self._beside(sent.chain),
            crowded=frozenset(one.backend for one in self._running.values() if one.backend),
        )
        self._running[call.id] = trace
        return trace

    def _sent(self, prompt: Prompt, tools: bytes | None, model: str, index: Index) -> Sent:
        chain = build(self._secret, prompt, model, tools, tools_first=self._orders[model] > 0)
        return Sent(prompt, tools_text(prompt, tools), chain, index.match(chain, model))

    def _scope(self, call: Call) -> bytes:
        who = digests.client(call.client)
        return digests.digest(self._secret, call.path.encode(), digests.encode(call.model or ""), who)

    def _beside(self, chain: Chain) -> frozenset[str]:
        """Backends that work on another prompt with the same first node."""
        first = chain.digests[:1]
        return frozenset(
            one.backend for one in self._running.values() if one.backend and first and one.sent.chain.digests[:1] == first
        )

    # a request has ended

    def settle(self, record: Record, trace: Trace | None, *, edited: bool) -> tuple[Record, dict[str, Any] | None]:
        """The record with what its prompt reused, lost and saved, and the explanation. edited: the canonical form was sent."""
        if trace is None:
            return record, None
        self._running.pop(trace.id, None)
        try:
            return self._settle(record, trace, edited)
        except Exception:
            log.exception("a request could not be explained")
            return record, None

    def _settle(self, record: Record, trace: Trace, edited: bool) -> tuple[Record, dict[str, Any] | None]:
        sent = trace.went_out(edited) if trace.edits else trace.sent
        record = replace(record, session=trace.session, edits=trace.edits if edited else {})
        answered = record.first is not None or record.usage.prompt is not None
        if record.backend is None or not answered or record.status >= 400:
            return record, None
        place, ratio = Place(record.backend, trace.label), self._ratio(trace.label)
        rate, now = self._rate(place), self._clock.now()
        warm = sent.warm.get(place.backend)
        usage = self._inferred(record, warm, rate)
        seen = Seen(trace, sent, place, replace(record, usage=usage), ratio.value, rate)
        verdict = self._judge.judge(seen)
        ratio.learn(usage.prompt or 0, sent.chain.size)
        self._learn_order(seen, verdict.tools_first)
        self._keep(place, trace, sent, usage, now)
        if verdict.record.reason == "evicted" and warm is not None and not usage.cached:
            self.index.evicted(warm)
        saved = self._saved(trace, sent, place, usage, rate, ratio.value)
        self._bus.publish(IndexChanged(len(self.index), self._working_set()))
        return replace(verdict.record, saved=saved), verdict.explanation

    def _keep(self, place: Place, trace: Trace, sent: Sent, usage: Usage, now: float) -> None:
        told = usage.source in ("usage", "timings")
        self.index.keep(sent.chain, place, now, usage.prompt, usage.completion, told=told)
        raw = usage.prompt if usage.prompt is None else round(usage.prompt * trace.raw.chain.size / (sent.chain.size or 1))
        self._raw_index.keep(trace.raw.chain, place, now, raw, usage.completion, told=told)
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
        raw, warm, own = trace.raw.warm.get(place.backend), sent.warm.get(place.backend), usage.cached
        if trace.raw.chain is not sent.chain or (raw.nodes if raw else 0) < (warm.nodes if warm else 0):
            own = min(own, expected(raw, trace.raw.chain, ratio, usage.prompt))
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
        if isinstance(event, RequestStarted) and event.id in self._running:
            self._running[event.id].backend = event.backend
        elif isinstance(event, RequestLeft) and event.id in self._running:
            self._running[event.id].backend = None
        elif isinstance(event, BackendProbed):
            self._probed(event.name, event.probe, event.seconds)
        elif isinstance(event, BackendGone):
            self._probes.pop(event.name, None)
            self._down.discard(event.name)
            for index in (self.index, self._raw_index):
                index.gone(event.name)

    def _probed(self, backend: str, probe: Probe, seconds: float) -> None:
        """A new process has nothing; a model that is not loaded has nothing; a sleeping server has nothing."""
        before = self._probes.get(backend)
        if not probe.up:
            self._down |= {backend} if not probe.loading else set()
            return
        self._probes[backend] = probe
        came_back = backend in self._down and before is not None and before.mark is None
        self._down.discard(backend)
        away = {model.name.removesuffix(":latest") for model in probe.models if model.resident is False}
        if self._latest.get(backend, 0.0) > self._clock.now() - seconds:
            away = set()  # loaded for an answer that ended while the server was looked at
        for index in (self.index, self._raw_index):
            if came_back or (before is not None and before.mark != probe.mark):
                index.drop(backend, "backend_restarted")
            elif probe.sleeping and not (before and before.sleeping):
                index.drop(backend, "model_loaded")
            for model in index.models(backend):
                if model.removesuffix(":latest") in away:
                    index.drop(backend, "model_loaded", model)


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
