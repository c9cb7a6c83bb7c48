"""Find out what a server is by asking what only one kind answers, then look at it as that kind."""

from __future__ import annotations

from gateway.backends import llamacpp, ollama, openai
from gateway.backends.base import Kind
from gateway.backends.control import Answer, Control
from gateway.values import Probe

KIND = "auto"


async def probe(control: Control) -> Probe:
    tags = await control.get("/api/tags")
    if tags.ok and isinstance(tags.field("models"), list):
        return await ollama.probe(control)
    props = await control.get("/props")
    if isinstance(props.field("default_generation_settings"), dict) or _still_loading(props):
        return await llamacpp.probe(control)
    found = await openai.probe(control)
    # Only a list of models proves the kind; a server that answers nothing useful may yet turn out to be something else.
    return found if found.up or found.loading else Probe(KIND, up=False, problem=found.problem)


def _still_loading(props: Answer) -> bool:
    """llama-server answers every path with this while it reads its model."""
    return props.status == 503 and props.field("error", "type") == "unavailable_error"


AUTO = Kind(
    name=KIND,
    serves=llamacpp.LLAMACPP.serves | ollama.OLLAMA.serves | openai.OPENAI.serves,
    probe=probe,
    lists={**openai.OPENAI.lists, **ollama.OLLAMA.lists},
    strip=llamacpp.LLAMACPP.strip,
    destructive=llamacpp.LLAMACPP.destructive + ollama.OLLAMA.destructive,
)
