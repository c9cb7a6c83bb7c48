"""Servers for the doctor: right ones, and ones with one fault each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import orjson

from tests.contract.bent import Bent, Change
from tests.support import personas
from tests.support.fake_server import FakeServer
from tests.support.personas import Canned, Persona
from tests.support.scripted import ScriptedUpstream


class Server(Protocol):
    @property
    def url(self) -> str: ...


Start = Callable[[], AbstractAsyncContextManager[Server]]

WIDE = 131_072
"""Tokens of context that are enough for everyone."""

SHOW = "POST /api/show"
RENDER = "POST /apply-template"
SAVE = "POST /slots/0"


def answering(persona: Persona, answers: Mapping[str, Any]) -> Persona:
    """With other answers to some questions; a Canned is taken as it is, a mapping is laid over what the persona answers."""
    changed = {}
    for where, value in answers.items():
        if isinstance(value, Mapping) and where in persona.answers:
            value = orjson.loads(persona.answers[where].body) | value
        changed[where] = value if isinstance(value, Canned) else Canned(200, orjson.dumps(value))
    return replace(persona, answers={**persona.answers, **changed})


def scripted(persona: Persona, **answers: Any) -> Start:
    return lambda: ScriptedUpstream(answering(persona, answers))


def llamacpp(answers: Mapping[str, Any] | None = None, **options: Any) -> Start:
    """It has two slots which hold a prompt each, saves slots, and has a template with tools before the system text."""
    held = [{"id": n, "n_ctx": WIDE, "is_processing": False, "n_prompt_tokens": 900} for n in (0, 1)]
    right = {"GET /slots": held, "GET /props": {"endpoint_metrics": True}, SAVE: error(400), RENDER: rendered("before")}
    return scripted(personas.llamacpp(**{"n_ctx": WIDE} | options), **right | (answers or {}))


def slots(*tokens: int | None, busy: bool = False) -> list[dict[str, Any]]:
    """Rows of /slots. None: a slot that never held anything."""
    held = [{} if count is None else {"n_prompt_tokens": count} for count in tokens]
    return [{"id": number, "n_ctx": WIDE, "is_processing": busy} | row for number, row in enumerate(held)]


def rendered(place: str) -> dict[str, str]:
    parts = ["warmgate_doctor_tool", "Warmgate-doctor-system"]
    return {"prompt": " ".join(parts if place == "before" else reversed(parts))}


def error(status: int) -> Canned:
    return Canned(status, orjson.dumps({"error": {"message": "no"}}))


def ollama(answers: Mapping[str, Any] | None = None, **options: Any) -> Start:
    """Its model is loaded for ever, with the context that its Modelfile says."""
    right = {
        SHOW: {"parameters": f"num_ctx {WIDE}", "template": "{{ range .Tools }}{{ . }}{{ end }}{{ .System }}{{ .Prompt }}"}
    }
    return scripted(personas.ollama(**{"num_ctx": WIDE, "loaded": True} | options), **right | (answers or {}))


def running(**fields: Any) -> dict[str, Any]:
    """What /api/ps answers."""
    row = {"name": "tiny:latest", "model": "tiny:latest", "size": 1_000_000, "size_vram": 1_000_000, "context_length": WIDE}
    return {"models": [row | {"expires_at": "2318-01-01T00:00:00Z"} | fields]}


def in_minutes(minutes: float) -> str:
    return (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat()


def swap(*, ttl: int = 0, running: int = 2) -> Start:
    """llama-swap with two models."""
    rows = [{"model": name, "state": "ready", "ttl": ttl} for name in ("a", "b")[:running]]
    return scripted(personas.openai("a", "b"), **{"GET /running": {"running": rows}})


def bent(fake: Callable[[], FakeServer], path: str, change: Change) -> Start:
    @asynccontextmanager
    async def start() -> AsyncIterator[Server]:
        async with fake() as server, Bent(server.url, path, change) as bending:
            yield bending

    return start
