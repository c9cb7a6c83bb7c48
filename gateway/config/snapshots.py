"""`snapshots`: slots of llama.cpp servers that are saved to files on the servers' disks."""

from __future__ import annotations

from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from gateway import units
from gateway.config.fields import Flag, Part, key, some_bytes


def bytes_or_none(value: object) -> int:
    """Bytes in a size, 0 for none. Raises ValueError."""
    return 0 if value in (0, "0") and value is not False else some_bytes(value)


Size = Annotated[
    int,
    PlainValidator(bytes_or_none),
    PlainSerializer(units.show_size, return_type=str),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": units.SIZE_PATTERN}, {"type": "integer", "minimum": 0}]}),
]


class Snapshots(Part):
    disk: Size = key("20GiB", "What all files of this gateway may take on the servers' disks; 0: no slot is saved.")
    writes_per_day: Size = key("100GiB", "What may be written in a day.")
    conversations: Flag = key(True, "false: only tools and system texts are saved, not what users wrote.")
