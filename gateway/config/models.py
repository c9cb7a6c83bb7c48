"""`models`: names that clients use, and what they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

from gateway.config.fields import Part, key, plain_text
from gateway.config.keep import Keep

_NAME_PATTERN = r"^[^\s*?]([^*?\x00-\x1f]*[^\s*?])?$"
_ALIAS_PATTERN = r"^\S(.*\S)?$"
_TARGET_PATTERN = r"^[^/\s]+/\S(.*\S)?$"

ModelName = Annotated[
    str,
    PlainValidator(plain_text(_NAME_PATTERN, "a model's name is not empty and has no * and ?; patterns belong in its aliases")),
    WithJsonSchema({"type": "string", "pattern": _NAME_PATTERN}),
]

Alias = Annotated[
    str,
    PlainValidator(plain_text(_ALIAS_PATTERN, "an alias is one line, not empty, without spaces at its ends")),
    WithJsonSchema({"type": "string", "pattern": _ALIAS_PATTERN}),
]

TargetText = Annotated[
    str,
    PlainValidator(plain_text(_TARGET_PATTERN, "not a target; write backend/model")),
    WithJsonSchema({"type": "string", "pattern": _TARGET_PATTERN}),
]


class Model(Part):
    """One name."""

    aliases: tuple[Alias, ...] = key((), "Other names for it; * and ? stand for any text and any one character.")
    targets: tuple[TargetText, ...] = key(
        (), "backend/model, the preferred one first; empty: wherever the name itself is found."
    )
    side_target: TargetText | None = key(
        None, "backend/model for titles, tags, summaries and the like, so that they leave the conversations' caches alone."
    )
    keep: Keep | None = key(None, "Whether and when it stays loaded.")


Models = Mapping[ModelName, Model]
