"""`warmup`: prefixes that are read ahead, so that the first answer after a load or a restart is as fast as the others."""

from __future__ import annotations

from pathlib import Path as FsPath
from typing import Annotated, Literal

from pydantic import BeforeValidator, PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema, model_validator

from gateway.config.fields import Count, CountOrNone, Mask, Part, key, plain_text, text
from gateway.config.keep import CronText, Zone

_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"

PinName = Annotated[
    str,
    PlainValidator(plain_text(_NAME_PATTERN, "a pin's name is made of letters, digits, - _ and ., at most 64")),
    WithJsonSchema({"type": "string", "pattern": _NAME_PATTERN}),
]

Path = Literal["/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat"]

When = Literal["startup", "model_loaded", "backend_restarted", "evicted", "demand"]


def _resolved(value: object, info: ValidationInfo) -> FsPath:
    """A relative path starts at the configuration file. Raises ValueError."""
    base = FsPath(info.context["base"] if info.context else ".")
    try:
        return (base / FsPath(text(value)).expanduser()).absolute()
    except RuntimeError as error:  # ~user without a home
        raise ValueError("there is no such home directory") from error


FilePath = Annotated[
    FsPath, PlainValidator(_resolved), PlainSerializer(str, return_type=str), WithJsonSchema({"type": "string", "minLength": 1})
]
"""A file that may be missing: that stops one pin, not the gateway."""

Secret = Annotated[str, PlainValidator(text), Mask, WithJsonSchema({"type": "string"})]


class Learn(Part):
    """Prefixes that are learned from traffic."""

    keep: CountOrNone = key(8, "So many are kept warm: those with most tokens, most often and most lately used; 0: none.")
    min_tokens: Count = key(1000, "Shorter ones are not worth it.")
    min_hits: Count = key(2, "Requests that must have begun with it.")


LearnOrOff = Annotated[
    Learn,
    BeforeValidator(lambda value: {"keep": 0} if value == "off" else value),
    WithJsonSchema({"anyOf": [{"const": "off"}, Learn.model_json_schema()]}),
]


class Pin(Part):
    """A prefix that is kept warm whether or not traffic has shown it."""

    name: PinName = key(..., "What it is called in logs, metrics and `warmgate warm NAME`.")
    model: str = key(..., "The model, as clients name it.")
    path: Path = key("/v1/chat/completions", "The API that its clients use: chat templates differ by it.")
    system_file: FilePath | None = key(None, "The system text.")
    tools_file: FilePath | None = key(None, "The list of tools, as JSON in the form of that API.")
    body_file: FilePath | None = key(None, "A whole request as JSON, of which the beginning counts; in the place of the two.")
    when: tuple[When, ...] = key(
        ("startup", "model_loaded", "backend_restarted", "evicted"), "What makes it be read; demand: only `warmgate warm`."
    )
    cron: CronText | None = key(None, "Moments at which it is read besides, as a cron expression.")
    zone: Zone = key("", "Time zone of the moments; empty: the machine's own.")

    @model_validator(mode="after")
    def _has_text(self) -> Pin:
        if not (self.system_file or self.tools_file or self.body_file):
            raise ValueError("give system_file, tools_file or body_file: what is to be read")
        if self.body_file and (self.system_file or self.tools_file):
            raise ValueError("body_file is the whole request; leave out system_file and tools_file")
        return self


class Warmup(Part):
    learn: LearnOrOff = key({}, "Prefixes learned from traffic; off: none.")
    pins: tuple[Pin, ...] = key((), "Prefixes that are given.")
    token: Secret = key("", "Allows POST /warm/NAME and nothing else, for an automation without the admin token.", secret=True)
