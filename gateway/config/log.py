"""`log`: what is written to standard error."""

from __future__ import annotations

from typing import Literal

from gateway.config.fields import Part, key


class Log(Part):
    format: Literal["auto", "text", "json"] = key("auto", "auto: text on a terminal, else JSON.")
    level: Literal["debug", "info", "warning", "error"] = key("info", "The least important level that is written.")
