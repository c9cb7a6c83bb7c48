"""`models.*.keep`: which models stay loaded, and when."""

from __future__ import annotations

from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema, model_validator

from gateway.config.fields import Count, Flag, Part, SomeDuration, key, text
from gateway.hours import ALWAYS, Cron, parse_cron, parse_zone

CronText = Annotated[
    str,
    PlainValidator(lambda value: parse_cron(text(value))),
    WithJsonSchema({"type": "string", "pattern": r"^\s*\S+(\s+\S+){4}\s*$"}),
]

Zone = Annotated[str, PlainValidator(lambda value: parse_zone(text(value))), WithJsonSchema({"type": "string"})]


class Keep(Part):
    """How a model is kept loaded. Nothing is done outside its hours, but for what clients ask for."""

    resident: Flag = key(False, "Load it and keep it loaded within its hours.")
    hours: CronText = key(ALWAYS, "The minutes in which it is kept, as a cron expression.")
    zone: Zone = key("", "Time zone of the hours, such as Europe/Berlin; empty: the machine's own.")
    keep_alive: SomeDuration | None = key(
        None, "Ollama, LM Studio: at least this long after each request, whatever a client asks for."
    )
    num_ctx: Count | None = key(None, "Ollama: tokens of context that every native request is made to ask for, at least.")

    @model_validator(mode="after")
    def _hours_are_used(self) -> Keep:
        if self.hours != ALWAYS and not self.resident and self.keep_alive is None:
            raise ValueError("hours say when a model is kept; set resident or keep_alive too")
        return self

    @property
    def cron(self) -> Cron:
        return Cron(self.hours, self.zone)
