"""From what was seen of a request to what is said of it: the nearest earlier request, and the verdict.

One writer of what is compared: `gateway.state.accounting`, on the event loop.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from gateway.canonical import digests
from gateway.dialects.prompt import Message
from gateway.prefix.chain import Chain, Part
from gateway.prefix.explain import Difference, Facts, Verdict, differ, judge
from gateway.prefix.index import Home, Place, Warm
from gateway.state.earlier import Earlier, Earliers, Looks
from gateway.state.explained import Compared
from gateway.state.rates import Rate
from gateway.state.trace import Sent, Trace
from gateway.values import Reason, Usage

LOADED = 1000.0
"""Milliseconds of loading from which on a model was loaded: a warm one reports a few, too."""

LEAST_SHOWN = 32
"""Tokens that tools and system text must have before a change in one tells which of them comes first."""

SAME_LINES = 0.2
"""Share of common lines from which on a first message is taken for an earlier one that was edited."""

LOOKED_AT = 4096
"""Characters of a first message by whose lines it is known again."""

CLIENTS: frozenset[Reason] = frozenset({"system_changed", "tools_changed", "history_changed", "params_changed", "window_slide"})
"""What a client changed, so that there is a place where it did."""


@dataclass(frozen=True, slots=True)
class Seen:
    """All about one request that has ended. usage: reported or inferred; ratio: tokens for each character, as known before
    it."""

    trace: Trace
    sent: Sent
    place: Place
    usage: Usage
    ratio: float
    rate: Rate


@dataclass(frozen=True, slots=True)
class Judged:
    """fields: of the record; compared: what an explanation is made of, None if none is to be; tools_first: what this request
    told about the model's template, None if nothing; missing: the backend did not have what it was believed to."""

    fields: dict[str, Any]
    compared: Compared | None
    tools_first: bool | None = None
    missing: bool = False

    @property
    def reason(self) -> Reason | None:
        return self.fields["reason"]  # type: ignore[no-any-return]


class Judge:
    """store: as in the configuration. Writes to `earlier`."""

    def __init__(self, secret: bytes, earlier: Earliers, store: str) -> None:
        self.store = store
        self._secret, self._earlier = secret, earlier
        self._looks = Looks()
        self._short: dict[Place, int] = defaultdict(int)

    def forget(self) -> None:
        self._looks = Looks()

    def judge(self, seen: Seen) -> Judged:
        one, trace = self._fingerprint(seen), seen.trace
        near = self._earlier.nearest(one)
        one.route = self._route(seen, one, near)
        self._earlier.add(one)
        found = self._differ(seen, one, near) if near else None
        facts = self._facts(seen, found)
        verdict = judge(facts)
        self._count(seen.place, facts, verdict)
        compared = Compared(one, near, found, seen.ratio, trace.mode, trace.rules)
        fields = {
            "route": one.route,
            "expected": expected(seen.sent.warm.get(seen.place.backend), one.chain, seen.ratio, seen.usage.prompt),
            "reason": verdict.reason,
            "section": compared.section if verdict.reason in CLIENTS else None,
            "lost_tokens": verdict.lost if verdict.reason else None,
            "lost_seconds": _cost(seen, verdict) if verdict.reason else None,
        }
        told = None if self.store == "none" else compared
        order = _order(one.chain, near.chain if near else None, found, facts)
        return Judged(fields, told, order, facts.missing > facts.slack)

    def _fingerprint(self, seen: Seen) -> Earlier:
        prompt, trace, chain = seen.sent.prompt, seen.trace, seen.sent.chain
        keeps, shape = self.store == "text", self._looks.shape(prompt, chain)
        return Earlier(
            id=trace.id,
            scope=trace.scope,
            side=trace.side,
            named=trace.named,
            chain=chain,
            looked=self._looks.at(prompt, chain),
            tools=self._looks.at_tools(seen.sent.tools, chain),
            shape=shape,
            words=self._looks.words(prompt, chain, shape),
            newest=_lines(prompt.messages[0]) if len(prompt.messages) == 1 else frozenset(),
            texts=(*(text.text for text in prompt.system), seen.sent.tools) if keeps else (),
        )

    def _differ(self, seen: Seen, one: Earlier, near: Earlier) -> Difference:
        def same_talk(part: Part) -> bool:
            if part.number > 0 or (one.named and one.named == near.named) or set(one.chain.said) & set(near.chain.said):
                return True
            ours = _lines(seen.sent.prompt.messages[part.number])
            return len(ours & near.newest) >= SAME_LINES * len(ours | near.newest)

        return differ(one.chain, near.chain, same_talk=same_talk)

    def _route(self, seen: Seen, one: Earlier, near: Earlier | None) -> str:
        """The route that the canonical form found; else that of the nearest request; else a new one."""
        if seen.trace.route:
            return seen.trace.route.hex()[:12]
        return near.route if near else digests.digest(self._secret, one.scope, one.shape.key).hex()[:12]

    def _facts(self, seen: Seen, found: Difference | None) -> Facts:
        place, usage, warm = seen.place, seen.usage, seen.sent.warm.get(seen.place.backend)
        chain, prompt = seen.sent.chain, usage.prompt
        others = [
            expected(one, chain, seen.ratio, prompt) for backend, one in seen.sent.warm.items() if backend != place.backend
        ]
        alone = warm is not None and seen.trace.latest.get(place.backend) == warm.last.used
        return Facts(
            side=seen.trace.side,
            difference=found,
            prompt=prompt,
            cached=usage.cached,
            believed=_tokens(warm.last, warm.ever, chain, seen.ratio, prompt) if warm else None,
            elsewhere=max(others, default=None),
            cause=warm.cause if warm else None,
            loaded=(usage.load_ms or 0.0) >= LOADED,
            busy=place.backend in seen.trace.beside,
            alone=alone and place.backend not in seen.trace.crowded,
            short=self._short[place],
            ratio=prompt / chain.size if prompt and chain.size else seen.ratio,
            compared=self.store != "none",
        )

    def _count(self, place: Place, facts: Facts, verdict: Verdict) -> None:
        """How often in a row a model reused less than it was believed to hold, with nothing else changed."""
        if facts.cached is None or not facts.believed or not facts.alone or facts.cause or facts.loaded or facts.respelled:
            return
        if verdict.reason not in ("unknown", "engine_limit", None):
            return
        self._short[place] = self._short[place] + 1 if facts.missing > facts.slack else 0


def _lines(message: Message) -> frozenset[int]:
    """Hashes of the lines of a message, which tell in this process whether it is an earlier one with some lines changed."""
    text = "\n".join([text.text[:LOOKED_AT] for text in message.texts])[:LOOKED_AT]
    return frozenset([hash(line) for line in text.split("\n") if line.strip()])


def expected(warm: Warm | None, chain: Chain, ratio: float, prompt: int | None) -> int:
    """Tokens that a place should reuse of a chain, by what was resident there when the request began."""
    return _tokens(warm.home, warm.nodes, chain, ratio, prompt) if warm and warm.home else 0


def _tokens(home: Home, nodes: int, chain: Chain, ratio: float, prompt: int | None) -> int:
    """Tokens of the first `nodes` nodes, and of the answer that was generated behind them if the prompt goes on with it."""
    tokens = home.tokens if home.tokens is not None else chain.size_at(nodes) * ratio
    following = chain.part_at(nodes)
    if home.after and following is not None and following.reply:
        tokens += min(home.after, following.size * ratio)
    return round(tokens if prompt is None else max(0, min(tokens, prompt - 1)))


def _cost(seen: Seen, verdict: Verdict) -> float | None:
    """Seconds that the lost tokens took: those right behind what was reused."""
    if verdict.lost is None:
        return None
    start = seen.usage.cached or 0
    return seen.rate.seconds(start, start + verdict.lost)


def _order(chain: Chain, old: Chain | None, found: Difference | None, facts: Facts) -> bool | None:
    """Whether the template has the tools before the system text, as far as a change in one of them tells."""
    if old is None or found is None or found.part is None or facts.cached is None or found.params:
        return None
    if found.part.kind == "message":
        return None
    sizes = {part.kind: part.size * facts.ratio for part in chain.parts}
    tools, system, kind = sizes.get("tools", 0.0), sizes.get("system", 0.0), found.part.kind
    if min(tools, system) < LEAST_SHOWN or facts.cause or facts.loaded:
        return None
    shared = found.shared * facts.ratio
    if kind == "system" and not chain.tools_first and _about(facts.cached, shared + tools, tools):
        return True  # the tools were reused although the system text changed
    if kind == "tools" and not chain.tools_first and facts.alone and _about(facts.cached, shared - system, system):
        return True  # the system text was not, although only the tools changed
    if kind == "tools" and chain.tools_first and _about(facts.cached, shared + system, system):
        return False
    return None


def _about(cached: int, tokens: float, margin: float) -> bool:
    return cached > 0 and abs(cached - tokens) < margin / 4
