"""What discovery found, in words and as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.cli._paste import Offer
from gateway.control.discover import PORTS, Discovery, Sight
from gateway.logs import LONGEST_NAME, printable
from gateway.values import ModelInfo

PORTS_VARIABLE = "WARMGATE_DISCOVER_PORTS"
MOST_MODELS = 6  # named one by one

TITLES = {
    "llamacpp": "llama.cpp",
    "llamaswap": "llama-swap",
    "lmstudio": "LM Studio",
    "ollama": "Ollama",
    "omlx": "oMLX",
    "openai": "an OpenAI-shaped server",
    "vllm": "vLLM",
}
"""Kind -> what people call it."""


def ports(env: Mapping[str, str]) -> tuple[int, ...]:
    """The ports to look at: the well-known ones, unless the variable says others (for tests). Raises ValueError."""
    named = env.get(PORTS_VARIABLE)
    if not named:
        return PORTS
    found = tuple(dict.fromkeys(int(word) for word in named.split(",")))
    if not all(0 < port < 65536 for port in found):
        raise ValueError(f"{PORTS_VARIABLE} holds numbers from 1 to 65535, with commas between them")
    return found


def lines(new: Mapping[str, Sight], discovery: Discovery, *, first: bool) -> list[str]:
    """New servers, one a line. first: also what could not be used, and where was looked when there is nothing."""
    told = [f"Found {words(name, sight)}" for name, sight in new.items()]
    if not first:
        return told
    told += list(strangers(discovery))
    if not new:
        looked = ", ".join(map(str, discovery.ports))
        told.append(f"No model server was found on this machine's ports {looked}; looking on, and serving what appears.")
    return told


def words(name: str, sight: Sight) -> str:
    """`ollama: Ollama 0.33.3 at http://127.0.0.1:11434, 2 models: a (8,192 tokens), b`."""
    probe = sight.probe
    what = " ".join(part for part in (TITLES.get(probe.kind, probe.kind), probe.version) if part)
    state = "still loading" if probe.loading else models(probe.models)
    return printable(f"{name}: {what} at {sight.url}, {state}", 1000)


def models(known: tuple[ModelInfo, ...]) -> str:
    """How many there are, the first of them by name, with their context where it is known."""
    shown = ", ".join(_model(model) for model in known[:MOST_MODELS])
    more = f", and {len(known) - MOST_MODELS} more" if len(known) > MOST_MODELS else ""
    count = f"{len(known) or 'no'} model{'' if len(known) == 1 else 's'}"
    return f"{count}: {shown}{more}" if known else count


def strangers(discovery: Discovery) -> Iterator[str]:
    """What answers and cannot be used. Web servers that have nothing to do with models are nothing to talk about."""
    for stranger in discovery.strangers.values():
        sight = stranger.sight
        if sight.locked:
            yield f"{sight.url} is a model server that asks for an API key; `warmgate init` writes a file that can hold it."
        elif sight.probe.kind != "auto" or sight.probe.loading:
            yield printable(f"{sight.url} is not served: {sight.probe.problem}", 300)


def offers(servers: Mapping[str, Sight]) -> tuple[Offer, ...]:
    return tuple(Offer(sight.probe.kind, sight.probe.models) for sight in servers.values())


def as_data(servers: Mapping[str, Sight]) -> list[dict[str, Any]]:
    """Contexts in tokens; null for what the server does not tell."""
    return [
        {
            "name": name,
            "kind": sight.probe.kind,
            "version": sight.probe.version,
            "url": sight.url,
            "loading": sight.probe.loading,
            "models": [{"name": model.name, "context": model.context} for model in sight.probe.models],
        }
        for name, sight in servers.items()
    ]


def _model(model: ModelInfo) -> str:
    context = f" ({model.context:,} tokens)" if model.context else ""
    return printable(model.name, LONGEST_NAME) + context
