"""Lines to paste into clients, so that they ask the gateway. To add a client: put a row into CLIENTS.

Source of the formats: the clients' own documentation (Hermes Agent integrations/providers, opencode.ai/docs/providers, Open
WebUI's compose file, docs.continue.dev, Home Assistant's Ollama integration and the custom OpenAI ones, the SDKs' READMEs).
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any, Literal

from gateway.backends import KINDS
from gateway.config import Address
from gateway.values import ModelInfo

Place = Literal["machine", "container", "lan"]
Format = Literal["yaml", "json", "shell", "words"]

CHAT, MESSAGES, OLLAMA = "/v1/chat/completions", "/v1/messages", "/api/chat"
DOCKER = "host.docker.internal"
ANY = ("", "0.0.0.0", "::")
NO_MODEL = "MODEL"
HERMES_WANTS = 64_000  # tokens; it refuses models with less
SIDE_MODELS = ("embed", "rerank", "bge-", "whisper")
"""What the names of models that do not chat often hold."""


@dataclass(frozen=True, slots=True)
class Client:
    """place: where it mostly runs, seen from the gateway; needs: path that a backend must serve for it; lines: a
    string.Template with $url (no slash at the end), $model (as it stands inside double quotes) and $context (a line, or
    nothing)."""

    name: str
    where: str
    format: Format
    place: Place
    needs: str
    lines: str


CLIENTS: tuple[Client, ...] = (
    Client("Hermes Agent", "~/.hermes/config.yaml", "yaml", "machine", CHAT, """\
model:
  provider: custom
  base_url: $url/v1
  default: "$model"$context"""),
    Client("opencode", "~/.config/opencode/opencode.json", "json", "machine", CHAT, """\
{
  "$$schema": "https://opencode.ai/config.json",
  "provider": {
    "warmgate": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "Warmgate",
      "options": { "baseURL": "$url/v1" },
      "models": { "$model": { "name": "$model" } }
    }
  }
}"""),
    Client("Open WebUI", "its container; or Admin Settings > Connections > OpenAI API", "shell", "container", CHAT, """\
docker run -d -p 3000:8080 --add-host=host.docker.internal:host-gateway -v open-webui:/app/backend/data \\
  -e OPENAI_API_BASE_URL=$url/v1 -e OPENAI_API_KEY=none --name open-webui ghcr.io/open-webui/open-webui:main"""),
    Client("Home Assistant, Ollama", "Settings > Devices & services > Add integration > Ollama", "words", "lan", OLLAMA, """\
URL: $url"""),
    Client("Home Assistant, OpenAI-compatible", "an integration that asks for a URL, such as Local OpenAI LLM", "words",
           "lan", CHAT, """\
Server URL: $url/v1"""),
    Client("Continue", "~/.continue/config.yaml", "yaml", "machine", CHAT, """\
name: Local models
version: 1.0.0
schema: v1
models:
  - name: "$model"
    provider: openai
    model: "$model"
    apiBase: $url/v1
    apiKey: none"""),
    Client("OpenAI SDKs", "environment", "shell", "machine", CHAT, """\
export OPENAI_BASE_URL=$url/v1 OPENAI_API_KEY=none"""),
    Client("Anthropic SDKs", "environment", "shell", "machine", MESSAGES, """\
export ANTHROPIC_BASE_URL=$url ANTHROPIC_API_KEY=none"""),
    Client("Ollama SDKs and command", "environment", "shell", "machine", OLLAMA, """\
export OLLAMA_HOST=$url"""),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Offer:
    """A backend's kind and models."""

    kind: str
    models: tuple[ModelInfo, ...]


@dataclass(frozen=True, slots=True)
class Places:
    """Base URLs of the gateway, by where a client runs. opened: the network reaches it there."""

    machine: str
    container: str
    lan: str
    port: int
    opened: bool

    @classmethod
    def of(cls, addresses: Sequence[Address]) -> Places:
        """From the data addresses: one that is loopback for this machine, one that is not for the others."""
        inner = next((address for address in addresses if address.is_loopback or address.host in ANY), addresses[0])
        outer = next((address for address in addresses if not address.is_loopback), None)
        port = (outer or inner).port
        named = outer.host if outer and outer.host not in ANY else None  # containers reach the host by that address alone
        return cls(
            machine=_url("127.0.0.1" if inner.host in ANY else inner.host, inner.port),
            container=_url(named or DOCKER, port),
            lan=_url(named or socket.gethostname(), port),
            port=port,
            opened=outer is not None,
        )


def guide(places: Places, offers: Sequence[Offer]) -> Iterator[str]:
    """The lines for people: the addresses, then each client."""
    closed = f"   (once it listens there: warmgate run --listen 0.0.0.0:{places.port})"
    yield "Point your clients at the gateway in place of the server:"
    yield f"  this machine       {places.machine}"
    yield f"  containers         {places.container}{'' if places.opened else closed}"
    yield f"  other machines     {places.lan}{'' if places.opened else closed}"
    for row in snippets(places, offers):
        yield ""
        yield f"# {row['client']}: {row['where']}"
        yield from row["lines"].splitlines()


def snippets(places: Places, offers: Sequence[Offer]) -> list[dict[str, Any]]:
    """The lines of each client that one of the backends can serve, as data."""
    found = []
    for client in CLIENTS:
        serving = [offer for offer in offers if client.needs in KINDS[offer.kind].serves]
        if serving:
            lines = fill(client, getattr(places, client.place), suggested(serving))
            found.append({"client": client.name, "where": client.where, "format": client.format, "lines": lines})
    return found


def fill(client: Client, url: str, model: ModelInfo | None) -> str:
    """One client's lines. A model's name is text of the server's, so it is only put where quotes are around it."""
    name = json.dumps(model.name if model else NO_MODEL)[1:-1]
    return Template(client.lines).substitute(url=url, model=name, context=_context(model))


def suggested(offers: Sequence[Offer]) -> ModelInfo | None:
    """The model that is named: one that chats and is loaded, else one that chats, else any."""
    models = [model for offer in offers for model in offer.models if model.name.isprintable()]

    def rank(model: ModelInfo) -> tuple[bool, bool]:
        return any(word in model.name.lower() for word in SIDE_MODELS), model.resident is not True

    return min(models, key=rank, default=None)


def _context(model: ModelInfo | None) -> str:
    if model is None or model.context is None:
        return ""
    little = f"  # it asks for {HERMES_WANTS:,}: give the server more" if model.context < HERMES_WANTS else ""
    return f"\n  context_length: {model.context}{little}"


def _url(host: str, port: int) -> str:
    return f"http://{Address(host, port)}"
