"""Probes of errors: status and shape for a model that is not there, a body that is no JSON, a path that does not exist."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gateway.contract.base import ALL, Finding, Probe, judged, kinds_serving, ok
from gateway.contract.bodies import CHAT, FORMS, MESSAGES, OLLAMA_CHAT
from gateway.contract.heard import Heard
from gateway.contract.server import Server

NO_MODEL = "warmgate-no-such-model"
NO_PATH = "/warmgate/no/such/path"

Statuses = Mapping[str, frozenset[int]]

MODEL: Statuses = {
    "ollama": frozenset({404}),
    "vllm": frozenset({404}),
    "omlx": frozenset({404}),
    "llamacpp": frozenset({200}),  # with a single model the name is ignored
}
ROUTER = frozenset({400, 404})
JSON: Statuses = dict.fromkeys(("llamacpp", "ollama"), frozenset({400})) | dict.fromkeys(
    ("vllm", "omlx"), frozenset({400, 422})
)
PATH: Statuses = dict.fromkeys(("llamacpp", "ollama", "vllm", "omlx"), frozenset({404})) | {"lmstudio": frozenset({200, 404})}
"""Kind -> statuses; kinds that are not named may answer anything. Sources: llama.cpp and its single model measured; Ollama's
routes.go; vLLM's and oMLX's servers are FastAPI applications; LM Studio's tracker (200 for a path that it does not have)."""


def model(path: str) -> Callable[[Server], Awaitable[Finding]]:
    async def ask(server: Server) -> Finding:
        heard = await server.post(path, server.body(path, server.text(4), 1) | {"model": NO_MODEL})
        router = server.kind.name == "llamacpp" and not server.seen.single_model
        return _judge(server, heard, ROUTER if router else MODEL.get(server.kind.name))

    return ask


def broken(path: str) -> Callable[[Server], Awaitable[Finding]]:
    async def ask(server: Server) -> Finding:
        heard = await server.send("POST", path, b'{"model": "a", "messages": [')
        return _judge(server, heard, JSON.get(server.kind.name))

    return ask


async def path(server: Server) -> Finding:
    heard = await server.get(NO_PATH)
    may = PATH.get(server.kind.name)
    if heard.status == 200 and server.kind.name == "lmstudio":
        fine = isinstance(heard.doc.get("error"), str)
        return judged(fine, f"200: {heard.words}", "an `error` in the body", status=200)
    return judged(heard.status in may if may else heard.status >= 400, f"{heard.status}: {heard.words}", _statuses(may))


def _judge(server: Server, heard: Heard, may: frozenset[int] | None) -> Finding:
    told = f"{heard.status}: " + (
        "an answer" if heard.status < 400 and "error" not in heard.doc else f"{shape(heard)} error, {heard.words}"
    )
    measured: dict[str, Any] = {"status": heard.status, "shape": shape(heard)}
    if may is None:
        return ok(told, **measured)
    fine = heard.status in may and (heard.status < 400 or shape(heard) in shapes(server.kind.name, heard.path))
    return judged(fine, told, f"{_statuses(may)}, {' or '.join(shapes(server.kind.name, heard.path))}", **measured)


def shape(heard: Heard) -> str:
    """The form of an error body: whose API it speaks."""
    error = heard.doc.get("error")
    if heard.doc.get("type") == "error" and isinstance(error, dict):
        return "anthropic"
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return "openai"
    return "text" if isinstance(error, str) else "none"


def shapes(kind: str, path: str) -> tuple[str, ...]:
    """Which forms a kind gives its errors on a path. Only Ollama is known to write Anthropic's in any case."""
    if path.startswith("/api/"):
        return ("text",)
    if path == MESSAGES:
        return ("anthropic",) if kind == "ollama" else ("anthropic", "openai")
    return ("openai",)


def _statuses(may: frozenset[int] | None) -> str:
    return " or ".join(map(str, sorted(may))) if may else "an error status"


_ABOUT = (CHAT, MESSAGES, OLLAMA_CHAT)

PROBES = (
    *(
        Probe(
            f"error-model-{FORMS[about].name}",
            f"Status and shape of the answer to a model that is not there, on {about}.",
            "measured on llama.cpp; the other servers' sources",
            model(about),
            kinds_serving(about),
        )
        for about in _ABOUT
    ),
    *(
        Probe(
            f"error-json-{FORMS[about].name}",
            f"Status and shape of the answer to a body that is no JSON, on {about}.",
            "measured on llama.cpp; the other servers' sources",
            broken(about),
            kinds_serving(about),
        )
        for about in _ABOUT
    ),
    Probe(
        "error-path",
        "The answer to a path that does not exist: LM Studio gives 200 with an error in the body, so a status proves nothing.",
        "measured on llama.cpp; LM Studio's bug tracker; the other servers' sources",
        path,
        ALL,
    ),
)
