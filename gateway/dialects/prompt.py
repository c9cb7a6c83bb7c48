"""A prompt: what a body asks a model to read, whatever API it is written for. Pure.

A `Prompt` is read from a parsed body and remembers where its texts stand in it (`Path`), so that `prompt_write.render` can put
changed texts back into the client's own bytes. It holds references to the parsed body and copies nothing.

`read` gives None for what has no structure to work on: raw text (`/v1/completions`, `/completion`), Ollama's `raw` and
fill-in-the-middle requests, and bodies whose messages are not shaped as their API says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gateway.dialects.prompt_ranges import Path

Role = Literal["user", "assistant", "tool", "other"]


@dataclass(frozen=True, slots=True)
class Text:
    """One text of the body and where it stands."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation (system text is not among them).

    texts: its text parts, without the content of tool results; data: the parsed message, to be read only;
    notable: a note may be added to its first text: it is the user's, has a text, and carries no tool result.
    """

    role: Role
    texts: tuple[Text, ...]
    data: Any
    notable: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """system: the system texts that come before the conversation, in order; tools: path and parsed list, or None;
    parameters: the fields besides these that change how a server renders the prompt.
    """

    path: str
    model: str
    system: tuple[Text, ...]
    messages: tuple[Message, ...]
    tools: tuple[Path, list[Any]] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def newest_user(self) -> int | None:
        """Index of the newest message that may carry a note."""
        return next((at for at in range(len(self.messages) - 1, -1, -1) if self.messages[at].notable), None)
