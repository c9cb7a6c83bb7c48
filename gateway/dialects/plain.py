"""The neutral dialect: for errors before the path is known, and for what is passed through unread. Pure."""

from __future__ import annotations

from gateway.dialects.counts import Json
from gateway.dialects.openai import OpenAI
from gateway.dialects.shapes import openai_error
from gateway.dialects.taps import Reader
from gateway.wire.lenient import dumps


class NothingReader(Reader):
    """Knows no API: sees errors, and that a document was whole."""

    news = (b"error",)

    def chunk(self, name: str, doc: Json) -> bool:
        return False

    def document(self, doc: Json) -> None:
        return None


class Plain(OpenAI):
    name = "plain"
    reader = NothingReader

    def error(self, status: int, code: str, message: str, request_id: str) -> bytes:
        return dumps({"error": {**openai_error(status, code, message), "request_id": request_id}})


DIALECT = Plain()
