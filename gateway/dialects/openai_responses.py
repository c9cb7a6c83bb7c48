"""OpenAI Responses. Pure.

Named events, each with its name as `type` again; the last is `response.completed`, `response.incomplete` or `response.failed`
and repeats the whole response with its token counts. There is no `[DONE]`.
"""

from __future__ import annotations

from gateway.dialects import counts
from gateway.dialects.counts import Json, as_dict, as_list
from gateway.dialects.openai import OpenAI
from gateway.dialects.shapes import openai_error, sse
from gateway.dialects.taps import Reader, error_text
from gateway.values import First

DELTAS: dict[str, First] = {
    "response.output_text.delta": "content",
    "response.refusal.delta": "content",
    "response.audio.delta": "content",
    "response.audio.transcript.delta": "content",
    "response.reasoning.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.function_call_arguments.delta": "tool_call",
    "response.custom_tool_call_input.delta": "tool_call",
    "response.mcp_call_arguments.delta": "tool_call",
    "response.code_interpreter_call_code.delta": "tool_call",
}
"""Events that carry content if their `delta` is not empty."""

ENDS = frozenset(("response.completed", "response.incomplete", "response.failed"))


class ResponsesReader(Reader):
    news = (b"response.completed", b"response.incomplete", b"response.failed", b"error")

    def chunk(self, name: str, doc: Json) -> bool:
        kind = doc.get("type")
        kind = kind if isinstance(kind, str) else name
        if kind in DELTAS:
            if doc.get("delta"):
                self.mark(DELTAS[kind])
        elif kind == "response.output_item.added":
            if is_call(as_dict(doc.get("item"))):
                self.mark("tool_call")
        elif kind in ENDS:
            self.seen.finished = True
            response = {"timings": doc.get("timings"), **as_dict(doc.get("response"))}  # llama.cpp puts them beside it
            self.response(response, failed=kind == "response.failed")
        return False

    def document(self, doc: Json) -> None:
        self.response(doc, failed=doc.get("status") == "failed")
        for item in as_list(doc.get("output")):
            self.item(as_dict(item))

    def response(self, response: Json, failed: bool) -> None:
        """The response object: token counts, and why it failed."""
        self.count(counts.openai(response))
        if failed and self.seen.error is None:
            self.seen.error = error_text(response)

    def item(self, item: Json) -> None:
        """One output item of a reply that was not streamed."""
        if is_call(item):
            self.mark("tool_call")
        elif item.get("type") == "reasoning":
            self.mark("reasoning")
        elif item.get("content"):
            self.mark("content")


def is_call(item: Json) -> bool:
    kind = item.get("type")
    return isinstance(kind, str) and kind.endswith("_call")


class OpenAIResponses(OpenAI):
    name = "openai_responses"
    reader = ResponsesReader

    def error_event(self, status: int, code: str, message: str, request_id: str) -> bytes:
        """The API's own `error` event; its `error` member is what the official SDKs raise on."""
        error = openai_error(status, code, message)
        doc = {"type": "error", "code": code, "message": message, "param": None, "sequence_number": 0, "error": error}
        return sse(doc, event="error")


DIALECT = OpenAIResponses()
