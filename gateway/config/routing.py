"""`routing`: how requests find their backend."""

from __future__ import annotations

from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

from gateway.config.fields import CountOrNone, Duration, Part, key, plain_text

_HEADER_PATTERN = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"

HeaderName = Annotated[
    str,
    PlainValidator(plain_text(_HEADER_PATTERN, "not a header's name")),
    WithJsonSchema({"type": "string", "pattern": _HEADER_PATTERN}),
]


class Routing(Part):
    queue: CountOrNone = key(64, "Requests that may wait for each backend; more are answered with 429 and Retry-After.")
    hold: Duration = key(
        "30s", "Longest wait for a place that has the prompt's prefix, where another is free; 0s: take what is free."
    )
    session_headers: tuple[HeaderName, ...] = key((), "More request headers that name the session, for clients of your own.")
