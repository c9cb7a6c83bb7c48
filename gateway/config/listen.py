"""`listen`, `identity` and `admin`: where the gateway is reached, and as what."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, GetJsonSchemaHandler, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from gateway.config.fields import Mask, Part, key, plain_text, text

Identity = Literal["auto", "llamacpp", "llamaswap", "lmstudio", "ollama", "omlx", "openai", "vllm"]

_ADDRESS_PATTERN = r"^(\[[0-9A-Fa-f:.]+(%[\w.-]+)?\]|[A-Za-z0-9_.-]*):[0-9]{1,5}$"
_ADDRESS = re.compile(_ADDRESS_PATTERN)
_ADDRESS_SCHEMA = {"type": "string", "pattern": _ADDRESS_PATTERN}
_ANY = {"": {4, 6}, "0.0.0.0": {4}, "::": {6}}
_LOOPBACK = {"127.0.0.1", "::1"}


class Address(NamedTuple):
    """Where to listen. host: '' means all interfaces, IPv6 stands without brackets; port: 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. A name other than localhost may mean anything."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"

    def overlaps(self, other: Address) -> bool:
        """Whether both cannot be listened on at once."""
        if self.port != other.port or self.port == 0:
            return False
        if self.host in _ANY or other.host in _ANY:
            return bool(_families(self.host) & _families(other.host))
        return bool(_names(self.host) & _names(other.host))


class Listener(NamedTuple):
    """A data address, and the kind of server that it looks like (`auto`: the first backend's)."""

    host: str
    port: int
    identity: str


def parse_address(value: object) -> Address:
    """`127.0.0.1:8484`, `[::1]:8484`, `:8484`. Raises ValueError with a sentence that says how to write it."""
    if isinstance(value, Address):
        return value
    words = text(value) if not isinstance(value, int) else ""
    host, _, port = words.rpartition(":")
    if not _ADDRESS.fullmatch(words):
        raise ValueError("not an address; write host:port such as 127.0.0.1:8484, [::1]:8484, or :8484 for all interfaces")
    if int(port) > 65535:
        raise ValueError("the port must be from 0 to 65535")
    if host.startswith("["):
        try:
            host = str(ipaddress.IPv6Address(host[1:-1]))
        except ValueError:
            raise ValueError("what stands in brackets is not an IPv6 address") from None
    return Address(host, int(port))


AddressText = Annotated[
    Address, PlainValidator(parse_address), PlainSerializer(str, return_type=str), WithJsonSchema(_ADDRESS_SCHEMA)
]


class Entry(Part):
    """An item of `listen`."""

    address: AddressText = key(..., "host:port; [::1]:port for IPv6; :port for all interfaces.")
    identity: Identity | None = key(None, "The kind of server that this address looks like; left out: the identity above.")


class _EitherForm:
    """Describes `listen` as what it may be written as: an address, an entry, or a list of both."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        listed = handler(core)
        one = [_ADDRESS_SCHEMA, listed["items"]]
        return {"anyOf": [*one, {"type": "array", "minItems": 1, "items": {"anyOf": one}}]}


def _as_entries(value: object) -> object:
    items = value if isinstance(value, list | tuple) else [value]
    if not items:
        raise ValueError("needs at least one address")
    return [item if isinstance(item, dict | Entry) else {"address": item if item is not None else ""} for item in items]


def _as_written(entries: tuple[Entry, ...]) -> Any:
    shown = [
        {"address": str(entry.address), "identity": entry.identity} if entry.identity else str(entry.address)
        for entry in entries
    ]
    return shown[0] if len(shown) == 1 else shown


Listen = Annotated[tuple[Entry, ...], BeforeValidator(_as_entries), PlainSerializer(_as_written), _EitherForm()]


class Admin(Part):
    """The second address, for the operator."""

    listen: AddressText = key("127.0.0.1:8485", "Address of /metrics, /status and the other pages for the operator.")
    token: Annotated[
        str,
        PlainValidator(plain_text(r"[\x21-\x7e]*", "must be ASCII without spaces")),
        Mask,
        WithJsonSchema({"type": "string"}),
    ] = key("", "Asked for as `Authorization: Bearer ...`; empty: nothing is asked for.", secret=True)

    @property
    def address(self) -> tuple[str, int]:
        return self.listen.host, self.listen.port


def _families(host: str) -> set[int]:
    if host in _ANY:
        return _ANY[host]
    return {6} if ":" in host else {4, 6} if host.lower() == "localhost" else {4}


def _names(host: str) -> set[str]:
    return _LOOPBACK if host.lower() == "localhost" else {host.lower()}
