"""`backends`: the servers behind the gateway."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema, model_validator

from gateway.config.fields import Flag, Mask, Part, SomeDuration, key, plain_text, text, whole

Sometimes = Literal["auto", "never"]

BackendKind = Literal["auto", "llamacpp", "llamaswap", "lmstudio", "ollama", "omlx", "openai", "vllm"]

_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
_URL_PATTERN = r"^https?://[^\s?#@]+$"
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_NOT_YOURS = {"host", "connection", "content-length", "content-encoding", "content-type", "transfer-encoding", "te", "upgrade"}

BackendName = Annotated[
    str,
    PlainValidator(plain_text(_NAME_PATTERN, "a backend's name is made of letters, digits, - _ and ., at most 64")),
    WithJsonSchema({"type": "string", "pattern": _NAME_PATTERN}),
]


def parse_url(value: object) -> str:
    """A server's base URL without its trailing slash. Raises ValueError with a sentence that says how to write it."""
    url = text(value)
    if not url.lower().startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a broken IPv6 address
        usable = False
    if usable and "@" in parts.netloc:
        raise ValueError("a URL must not hold a user name or password; send them in headers, and keep the secret in a ${VAR}")
    if not usable or not re.fullmatch(r"[\x21-\x7e]+", url) or "\\" in url:
        raise ValueError("not a URL; write it such as http://127.0.0.1:11434 or https://host/base")
    if parts.query or parts.fragment or url.endswith(("?", "#")):
        raise ValueError("a base URL has no ? and no #; send keys in headers")
    if parts.path.rstrip("/").endswith("/v1"):
        raise ValueError("leave out the /v1 at the end: the gateway adds each request's own path")
    return url.rstrip("/")


Url = Annotated[str, PlainValidator(parse_url), WithJsonSchema({"type": "string", "pattern": _URL_PATTERN})]


def _file(value: object, info: ValidationInfo) -> Path:
    """A file that exists; a relative path starts at the configuration file."""
    base = Path(info.context["base"] if info.context else ".")
    try:
        path = (base / Path(text(value)).expanduser()).absolute()
        exists = path.is_file()
    except (RuntimeError, OSError):  # ~user without a home, a name that is too long
        exists = False
    if not exists:
        raise ValueError("there is no such file; a relative path starts at the directory of this configuration")
    return path


File = Annotated[
    Path, PlainValidator(_file), PlainSerializer(str, return_type=str), WithJsonSchema({"type": "string", "minLength": 1})
]


def _header_names(value: object) -> object:
    """Names are checked before values, so that a secret in the place of a name is not repeated as a key."""
    names = [str(name).lower() for name in value] if isinstance(value, Mapping) else []
    if not all(_HEADER_NAME.fullmatch(name) for name in names):
        raise ValueError("not a header's name; write name: value")
    if taken := sorted(_NOT_YOURS.intersection(names)):
        raise ValueError(f"the gateway sets {taken[0]} itself")
    if len(set(names)) < len(names):
        raise ValueError("the same header is given twice, in different spelling")
    return value


def _header_value(value: object) -> str:
    if not re.fullmatch(r"[\t\x20-\x7e]*", text(value).strip()):
        raise ValueError("a header's value must be one line of ASCII")
    return text(value).strip()


HeaderValue = Annotated[str, PlainValidator(_header_value), Mask, WithJsonSchema({"type": "string"})]
Headers = Annotated[Mapping[str, HeaderValue], BeforeValidator(_header_names)]


class Timeouts(Part):
    connect: SomeDuration = key("2s", "Longest time to connect.")
    first_byte: SomeDuration = key("15m", "Longest silence before the first byte of an answer: loading and prefill.")
    idle: SomeDuration = key("5m", "Longest silence within an answer.")


class Tls(Part):
    verify: Flag = key(True, "Whether the server's certificate is checked.")
    ca: File | None = key(None, "PEM file of the authority to trust instead of the system's.")

    @model_validator(mode="after")
    def _ca_is_used(self) -> Tls:
        if self.ca and not self.verify:
            raise ValueError("ca has no use where verify is false; leave one of them out")
        return self


def parse_parallel(value: object) -> int | None:
    """A count, None for `auto`. Raises ValueError."""
    return None if value is None or value == "auto" else whole(value, 1)


Parallel = Annotated[
    int | None,
    PlainValidator(parse_parallel),
    PlainSerializer(lambda count: "auto" if count is None else count),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1}]}),
]


def parse_slots(value: object) -> frozenset[int] | None:
    """Numbers of slots, None for `auto`. Raises ValueError."""
    if value is None or value == "auto":
        return None
    if not isinstance(value, list | tuple | frozenset) or not value:
        raise ValueError("write auto, or the numbers of slots such as [0, 1]")
    return frozenset(whole(number, 0) for number in value)


Slots = Annotated[
    frozenset[int] | None,
    PlainValidator(parse_slots),
    PlainSerializer(lambda numbers: "auto" if numbers is None else sorted(numbers)),
    WithJsonSchema(
        {"anyOf": [{"const": "auto"}, {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}]}
    ),
]

_RATE_PATTERN = r"^[0-9]{1,9}(?:\.[0-9]{1,3})?/s$"


def parse_rate(value: object) -> float | None:
    """Tokens a second in `300/s`, None for `auto`. Raises ValueError."""
    if value is None or value == "auto":
        return None
    if isinstance(value, float):
        return value  # as it is kept
    found = float(text(value).removesuffix("/s")) if re.fullmatch(_RATE_PATTERN, text(value)) else 0.0
    if found <= 0:
        raise ValueError("write auto, or tokens a second such as 300/s")
    return found


PrefillRate = Annotated[
    float | None,
    PlainValidator(parse_rate),
    PlainSerializer(lambda rate: "auto" if rate is None else f"{rate:.3f}".rstrip("0").rstrip(".") + "/s"),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "string", "pattern": _RATE_PATTERN}]}),
]


class Backend(Part):
    """One server."""

    kind: BackendKind = key("auto", "Which server it is; auto: it is asked.")
    url: Url = key(..., "Base URL, without the API's own path.")
    parallel: Parallel = key(
        "auto", "How many requests it works on at once per model, where it cannot be asked; more wait here. auto: no limit."
    )
    pin: Sometimes = key("auto", "Whether requests are pinned to slots; auto: where that was seen to help.")
    snapshots: Sometimes = key("auto", "Whether its slots are saved to files and restored; auto: where it offers that.")
    slots: Slots = key(
        "auto", "Numbers of the slots that are this gateway's, where another gateway uses the same server; auto: all."
    )
    prefill_rate: PrefillRate = key("auto", "How fast it reads prompts, in tokens a second; auto: learned.")
    headers: Headers = key({}, "Sent with every request to it.", secret=True)
    timeouts: Timeouts = key({}, "How long to wait for it.")
    tls: Tls = key({}, "For https.")

    @property
    def base_url(self) -> str:
        """Without a trailing slash."""
        return self.url


Backends = Mapping[BackendName, Backend]
