"""From what was seen of a request to what is said of it: the nearest earlier request, the verdict, and the explanation as
JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gateway.canonical import digests
from gateway.dialects.prompt import Message
from gateway.prefix import sections, words
from gateway.prefix.chain import STEP, Chain, Part
from gateway.prefix.explain import Difference, Facts, Verdict, differ, judge
from gateway.prefix.index import Home, Place, Warm
from gateway.prefix.sections import Change, Looked
from gateway.prefix.spelling import spelled
from gateway.state.earlier import Earlier, Earliers, Looks
from gateway.state.rates import Rate
from gateway.state.trace import Sent, Trace
from gateway.values import Record

LOADED = 1000.0
"""Milliseconds of loading from which on a model was loaded: a warm one reports a few, too."""

LEAST_SHOWN = 32
"""Tokens that tools and system text must have before a change in one tells which of them comes first."""

SAME_LINES = 0.2
"""Share of common lines from which on a first message is taken for an earlier one that was edited."""

SHOWN = 80
"""Characters of a text that are shown on each side of a difference."""


@dataclass(frozen=True, slots=True)
class Seen:
    """All about one request that has ended. ratio: tokens for each character, as known before it."""

    trace: Trace
    sent: Sent
    place: Place
    record: Record
    ratio: float
    rate: Rate


@dataclass(frozen=True, slots=True)
class Judged:
    """tools_first: what this request told about the model's template, None if nothing."""

    record: Record
    explanation: dict[str, Any] | None
    tools_first: bool | None = None


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
        one, record = self._fingerprint(seen), seen.record
        near = self._earlier.nearest(one)
        one = replace(one, route=self._route(seen, one, near))
        self._earlier.add(one)
        found = self._differ(seen, one, near) if near else None
        facts = self._facts(seen, found)
        verdict = judge(facts)
        self._count(seen.place, facts, verdict)
        changed = _change(one, near, found) if near and found else None
        section = _section(one, found, changed) if verdict.reason and _is_clients(verdict, found) else None
        record = replace(
            record,
            route=one.route,
            expected=expected(seen.sent.warm.get(seen.place.backend), one.chain, seen.ratio, record.usage.prompt),
            reason=verdict.reason,
            section=section,
            lost_tokens=verdict.lost if verdict.reason else None,
            lost_seconds=_cost(seen, verdict) if verdict.reason else None,
        )
        explanation = None if self.store == "none" else _explanation(seen, one, near, found, changed, record)
        return Judged(record, explanation, _order(one.chain, near.chain if near else None, found, facts))

    def _fingerprint(self, seen: Seen) -> Earlier:
        prompt, trace, chain = seen.sent.prompt, seen.trace, seen.sent.chain
        keeps = self.store == "text"
        return Earlier(
            id=trace.id,
            scope=trace.scope,
            route="",
            side=trace.side,
            named=trace.named,
            chain=chain,
            spelled=spelled(self._secret, prompt),
            looked=self._looks.at(prompt),
            tools=self._looks.at_tools(seen.sent.tools),
            shape=self._looks.shape(prompt),
            said=frozenset(part.own for part in chain.parts if part.kind == "message"),
            newest=_lines(prompt.messages[-1]) if prompt.messages else frozenset(),
            texts=(*(text.text for text in prompt.system), seen.sent.tools) if keeps else (),
        )

    def _differ(self, seen: Seen, one: Earlier, near: Earlier) -> Difference:
        def same_talk(part: Part) -> bool:
            if part.number > 0 or (one.named and one.named == near.named) or one.said & near.said:
                return True
            ours = _lines(seen.sent.prompt.messages[part.number])
            return len(ours & near.newest) >= SAME_LINES * len(ours | near.newest)

        return differ(one.chain, near.chain, one.spelled, near.spelled, same_talk=same_talk)

    def _route(self, seen: Seen, one: Earlier, near: Earlier | None) -> str:
        """The route that the canonical form found; else that of the nearest request; else a new one."""
        if seen.trace.route:
            return seen.trace.route.hex()[:12]
        return near.route if near else digests.digest(self._secret, one.scope, one.shape.key).hex()[:12]

    def _facts(self, seen: Seen, found: Difference | None) -> Facts:
        place, usage, warm = seen.place, seen.record.usage, seen.sent.warm.get(seen.place.backend)
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
    return frozenset(hash(line) for text in message.texts for line in text.text.split("\n") if line.strip())


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


def _is_clients(verdict: Verdict, found: Difference | None) -> bool:
    return found is not None and verdict.reason in (
        "system_changed", "tools_changed", "history_changed", "params_changed", "window_slide",
    )  # fmt: skip


def _change(one: Earlier, near: Earlier, found: Difference) -> Change | None:
    """Where and by what the two prompts differ; None if this one goes on as the earlier one ended."""
    part = found.respelled if found.respelled and found.part is None else found.part
    if part is None:
        return None
    if part.kind == "tools" or (found.old is not None and found.old.kind == "tools"):
        detector = "tools" if sections.reordered(one.tools, near.tools) else None
        return Change(max(0, found.shared - part.start), STEP, detector)
    offset = max(0, found.shared - part.start)
    if part.kind == "system" and part.number < len(near.looked):
        return sections.change(one.looked[part.number], near.looked[part.number], offset)
    return Change(offset, min(STEP, part.size), None)


def _section(one: Earlier, found: Difference | None, changed: Change | None) -> str | None:
    if found is None or changed is None:
        return None
    part = found.part or found.respelled
    if part is None:
        return None
    if found.slid or found.respelled is part:
        return sections.HISTORY
    looked = one.looked[part.number] if part.kind == "system" and part.number < len(one.looked) else Looked()
    name = sections.section_of(part, one.chain, changed.offset, looked)
    if name == sections.IDENTITY and changed.detector in (*sections.PLACES, *sections.MEMORIES):
        return sections.PLACE_AND_TIME if changed.detector in sections.PLACES else sections.MEMORY
    return name


def _cost(seen: Seen, verdict: Verdict) -> float | None:
    """Seconds that the lost tokens took: those right behind what was reused."""
    if verdict.lost is None:
        return None
    start = seen.record.usage.cached or 0
    return seen.rate.seconds(start, start + verdict.lost)


def _order(chain: Chain, old: Chain | None, found: Difference | None, facts: Facts) -> bool | None:
    """Whether the template has the tools before the system text, as far as a change in one of them tells."""
    if old is None or found is None or found.part is None or facts.cached is None or found.params:
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


def _explanation(
    seen: Seen, one: Earlier, near: Earlier | None, found: Difference | None, changed: Change | None, record: Record
) -> dict[str, Any]:
    usage, reason = record.usage, record.reason
    detector = changed.detector if changed and reason in ("system_changed", "tools_changed") else None
    reused = usage.cached if usage.cached is not None else record.expected or 0
    ratio = usage.prompt / one.chain.size if usage.prompt and one.chain.size else seen.ratio
    told = usage.source in ("usage", "timings")
    return {
        "id": record.id,
        "reason": reason,
        "sentence": words.sentence(reason, detector, reported=usage.cached is not None and told),
        "compared_with": near.id if near else None,
        "sections": sections.listing(one.chain, one.looked, reused, ratio),
        "difference": _difference(one, near, found, changed, record.section),
        "lost": {"tokens": record.lost_tokens or 0, "seconds": record.lost_seconds},
        "detector": detector,
        "fix": words.fix(reason, detector, seen.trace.mode, seen.trace.rules),
    }


def _difference(
    one: Earlier, near: Earlier | None, found: Difference | None, changed: Change | None, section: str | None
) -> Mapping[str, Any] | None:
    if near is None or found is None or changed is None:
        return None
    section = section or _section(one, found, changed)
    texts = _texts(one, near, found)
    if texts is None:
        place = {"section": section, "offset": changed.offset, "exact": False, "within": changed.within}
        return {**place, "before": None, "after": None}
    new, old = texts
    at = next((at for at, (a, b) in enumerate(zip(new, old, strict=False)) if a != b), min(len(new), len(old)))
    first = max(0, at - 20)
    return {
        "section": section, "offset": at, "exact": True, "within": 0,
        "before": old[first : at + SHOWN], "after": new[first : at + SHOWN],
    }  # fmt: skip


def _texts(one: Earlier, near: Earlier, found: Difference) -> tuple[str, str] | None:
    """The two versions of what changed, if they are kept."""
    part = found.part
    if part is None or part.kind == "message" or not one.texts or not near.texts:
        return None
    if part.kind == "tools":
        return one.texts[-1], near.texts[-1]
    return (one.texts[part.number], near.texts[part.number]) if part.number < len(near.texts) - 1 else None
