"""Probes of answers: the first one, streams, and single documents, for each API that a kind serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gateway.contract.base import ALL, LOADING, Finding, Probe, judged, kinds_serving, ok
from gateway.contract.bodies import CHAT, FORMS, QUESTION
from gateway.contract.heard import Heard
from gateway.contract.order import GRAMMARS, shown
from gateway.contract.server import Server, answered
from gateway.dialects import COUNT_ON_REQUEST, ENDPOINTS
from gateway.values import Usage

TOKENS = 16
"""Enough that models which think, or mark where their answer begins, say something visible."""

ASKED = {"stream_options": {"include_usage": True}}


async def first_answer(server: Server) -> Finding:
    """It also measures what a one-token answer costs when the server has nothing else to do."""
    heard = await server.answer(CHAT, server.text(8), 1)
    again = await server.answer(CHAT, server.text(8), 1)
    server.baseline = again.end
    return ok(f"{heard.end:.2f} s, then {again.end:.2f} s for one token", first=heard.end, again=again.end)


def streaming(path: str) -> Callable[[Server], Awaitable[Finding]]:
    """Streams an answer and looks at its order, its media type, its end and its counts."""
    dialect = ENDPOINTS[path].dialect
    grammar = GRAMMARS[dialect.name]
    media = "application/x-ndjson" if dialect.name == "ollama" else "text/event-stream"

    async def ask(server: Server) -> Finding:
        extra = ASKED if dialect in COUNT_ON_REQUEST else {}
        heard = answered(await server.hear(path, server.body(path, QUESTION, TOKENS, stream=True) | extra))
        words = grammar.words(heard.events())
        wrong = [
            *([] if heard.media == media else [f"media type {media}, not {heard.media or 'none'}"]),
            *([] if grammar.fits(words) else [grammar.told]),
            *_wants(heard),
        ]
        told = f"{shown(words)}; {counts(heard.seen.usage)}"
        return judged(not wrong, told, "; ".join(wrong), order=shown(words), first=heard.seen.first)

    return ask


def _wants(heard: Heard) -> list[str]:
    """What a complete answer has, stream or document, and this one has not."""
    seen, usage = heard.seen, heard.seen.usage
    return [
        *([] if seen.first else ["a piece of content"]),
        *([] if seen.finished else ["its terminator"]),
        *([] if usage.prompt and usage.completion else ["counts of prompt and completion tokens"]),
    ]


def counts(usage: Usage) -> str:
    cached = "not reported" if usage.cached is None else str(usage.cached)
    return f"prompt {usage.prompt}, cached {cached}, completion {usage.completion}"


async def unasked(server: Server) -> Finding:
    """The counts of a stream that does not ask for them."""
    heard = answered(await server.hear(CHAT, server.body(CHAT, QUESTION, TOKENS, stream=True)))
    words = GRAMMARS["openai_chat"].words(heard.events())
    told = heard.seen.usage.prompt is not None or heard.seen.usage.cached is not None
    detail = f"{'counts' if told else 'no counts'} unasked: {shown(words)}"
    if server.kind.name not in UNASKED or server.before(0, 32, 6):
        return ok(detail, told=told)
    return judged(told == UNASKED[server.kind.name], detail, "no counts" if told else "`timings`", told=told)


UNASKED = {"llamacpp": True, "ollama": False, "vllm": False}
"""Kinds of which it is known whether a chat stream tells counts that nobody asked for. Source: llama.cpp puts `timings` on the
last chunk (measured); Ollama since 0.32.6 and vLLM send the usage chunk only on request."""


async def usage_place(server: Server) -> Finding:
    """Where the counts stand that a chat stream was asked for."""
    heard = answered(await server.hear(CHAT, server.body(CHAT, QUESTION, TOKENS, stream=True) | ASKED))
    words = [word for word in GRAMMARS["openai_chat"].words(heard.events()) if "usage" in word or "timings" in word]
    expected = ["usage+timings"] if server.kind.name == "llamacpp" else ["usage"]
    return judged(words == expected, f"on {shown(words)}", f"a chunk of their own: {shown(expected)}", place=words)


# documents

_MESSAGE: Mapping[str, Any] = {
    "object": "chat.completion",
    "choices.0.message.role": "assistant",
    "choices.0.finish_reason": str,
}
DOCUMENTS: Mapping[str, Mapping[str, Any]] = {
    "openai_chat": _MESSAGE,
    "openai_completions": {"choices.0.text": str, "choices.0.finish_reason": str},
    "openai_responses": {"object": "response", "status": str, "output": list},
    "anthropic": {"type": "message", "role": "assistant", "content": list, "stop_reason": str},
    "ollama": {"done": True, "done_reason": str, "created_at": str},
    "llamacpp": {"content": str, "stop": True, "timings": dict},
}
"""Dialect -> places in its document -> the value or the type that stands there. Source: the APIs' documentation."""


def document(path: str) -> Callable[[Server], Awaitable[Finding]]:
    """Asks for an answer that is one document and looks at its fields and counts."""
    places = DOCUMENTS[ENDPOINTS[path].dialect.name]

    async def ask(server: Server) -> Finding:
        heard = await server.answer(path, QUESTION, TOKENS)
        wrong = [place for place, wanted in places.items() if not _fits(_at(heard.doc, place), wanted)] + _wants(heard)
        return judged(not wrong, f"{counts(heard.seen.usage)}; keys {', '.join(heard.doc)}", f"also {', '.join(wrong)}")

    return ask


def _at(doc: Any, place: str) -> Any:
    for key in place.split("."):
        if isinstance(doc, list):
            doc = doc[int(key)] if key.isdigit() and int(key) < len(doc) else None
        else:
            doc = doc.get(key) if isinstance(doc, dict) else None
    return doc


def _fits(value: Any, wanted: Any) -> bool:
    return isinstance(value, wanted) if isinstance(wanted, type) else value == wanted


PROBES = (
    Probe(
        "first-answer",
        "A chat request of one token is answered, after loading if need be.",
        "every server's documentation",
        first_answer,
        seconds=LOADING,
    ),
    *(
        Probe(
            f"stream-{form.name}",
            f"The order of the events of a {path} stream, its terminator, and its token counts.",
            "the API's documentation and the servers' sources",
            streaming(path),
            kinds_serving(path),
        )
        for path, form in FORMS.items()
    ),
    Probe(
        "stream-usage-place",
        "Counts that a chat stream was asked for stand on a chunk of their own, `choices` empty, behind the finish.",
        "OpenAI's documentation; on llama.cpp `timings` move to that chunk (measured)",
        usage_place,
        ALL - {"openai", "llamaswap"},
    ),
    Probe(
        "stream-usage-unasked",
        "Whether a chat stream tells token counts that nobody asked for.",
        "measured on llama.cpp; sources of Ollama and vLLM",
        unasked,
    ),
    *(
        Probe(
            f"document-{form.name}",
            f"The fields of a {path} answer that is not streamed, and its token counts.",
            "the API's documentation and the servers' sources",
            document(path),
            kinds_serving(path),
        )
        for path, form in FORMS.items()
    ),
)
