"""What is known of one request's prompt while it runs. Written by `accounting` only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.canonical.settings import Mode
from gateway.dialects.prompt import Prompt
from gateway.prefix.chain import Chain
from gateway.prefix.index import Warm


@dataclass(slots=True)
class Sent:
    """A prompt in one of its forms: as the client wrote it, or as it is sent. tools: the list as JSON, "" for none; warm: what
    each backend held of it when it began."""

    prompt: Prompt
    tools: str
    chain: Chain
    warm: Mapping[str, Warm]


@dataclass(slots=True)
class Trace:
    """raw, sent: the same object if the prompt was not edited; edits: by rule; began: monotonic seconds; latest: for each
    backend the time of the last prompt that it had computed when this one began; beside: backends at which another prompt with
    this beginning was running then; crowded: those at which any other was; mode, rules: of the canonical form, for this one;
    backend: where it runs now."""

    id: str
    label: str
    named: str
    session: str
    scope: bytes
    side: bool
    raw: Sent
    sent: Sent
    edits: Mapping[str, int]
    route: bytes
    began: float
    mode: Mode
    rules: tuple[str, ...] = ()
    latest: Mapping[str, float] = field(default_factory=dict)
    beside: frozenset[str] = frozenset()
    crowded: frozenset[str] = frozenset()
    backend: str | None = None
    promised: int | None = None

    def went_out(self, edited: bool) -> Sent:
        """What the backend read: the client's own prompt if it refused the edited one."""
        return self.sent if edited else self.raw

    @property
    def beginning(self) -> tuple[bytes, ...]:
        """The first node of what is sent, () if there is none."""
        return self.sent.chain.digests[:1]
