"""`hosts`, `passthrough`, `api_keys` and `cors_origins`: who may ask for what."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import PlainValidator, WithJsonSchema

from gateway.config.fields import Mask, plain_text

Passthrough = Literal["safe", "all"]

_HOST_PATTERN = r"^([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])$"
_ORIGIN_PATTERN = r"^(\*|[A-Za-z][A-Za-z0-9+.-]*://[^\s/]+)$"

HostName = Annotated[
    str,
    PlainValidator(plain_text(_HOST_PATTERN, "not a host name; write the name alone, without http:// and port")),
    WithJsonSchema({"type": "string", "pattern": _HOST_PATTERN}),
]

Origin = Annotated[
    str,
    PlainValidator(
        plain_text(_ORIGIN_PATTERN, "not an origin; write it as browsers send it, such as https://chat.lan:3000, or *")
    ),
    WithJsonSchema({"type": "string", "pattern": _ORIGIN_PATTERN}),
]

ApiKey = Annotated[
    str,
    PlainValidator(plain_text(r"[\x21-\x7e]+", "an API key must be ASCII without spaces, and not empty")),
    Mask,
    WithJsonSchema({"type": "string", "minLength": 1}),
]
