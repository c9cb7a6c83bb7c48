"""What comes out of `canonicalize`. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.canonical.ledger import Row
from gateway.canonical.notes import Note, Sent
from gateway.dialects.prompt import Prompt


@dataclass(frozen=True, slots=True)
class Edit:
    """One change. rule: its name; section: `system[0]`, `tools` or `message[3]` (the conversation's, without system messages);
    offset: character in the section's text as it was before; before, after: what stood there and what stands there now.
    """

    rule: str
    section: str
    offset: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that only observed rules found. behind: characters of the prompt that a change at this place makes a server
    read again (the rest of the system text and the conversation; at least so much whatever the template).
    """

    edit: Edit
    behind: int


@dataclass(frozen=True, slots=True)
class Result:
    """body: the bytes to send, the client's own object if nothing changed; prompt: what they say.

    edits: what was changed; findings: what observed rules would have changed; remember: rows for the ledger's writer;
    sent: give it to `notes.heard` together with the digest of the reply; notes: index of a message -> its note;
    route: id of the route; reason: why the client's bytes go out unchanged although something was found, "" otherwise.
    """

    body: bytes
    prompt: Prompt
    edits: tuple[Edit, ...] = ()
    findings: tuple[Finding, ...] = ()
    remember: tuple[Row, ...] = ()
    sent: Sent | None = None
    notes: Mapping[int, Note] = field(default_factory=dict)
    route: bytes = b""
    reason: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """Edits by rule, for the response header and metrics: no text."""
        found: dict[str, int] = {}
        for edit in self.edits:
            found[edit.rule] = found.get(edit.rule, 0) + 1
        return found
