"""What a chat template does to the prefix: dates that it writes into it, and where it puts the tools. Pure."""

from __future__ import annotations

import re
from typing import Any, Literal

DATES = re.compile(
    r"strftime_now\s*\(\s*['\"][^'\"]*['\"]\s*\)|\bcurrentDate\b|\byesterdayDate\b|\bstrftime_now\b|\bdatetime\.now\b"
)
"""Calls that write a date: Jinja's `strftime_now` (llama.cpp, vLLM, Ollama) and the functions of Ollama's Go templates."""

TIME_OF_DAY = re.compile(r"%[-#]?[HIMSscfprRTX]")
"""Codes of strftime that change within a day. Source: C's and Python's strftime."""

SYSTEM, TOOL, USER = "Warmgate-doctor-system", "warmgate_doctor_tool", "Warmgate-doctor-question"

Place = Literal["before", "behind"]


def dates(template: str) -> list[str]:
    """The calls in a template that write a date, each once."""
    return list(dict.fromkeys(DATES.findall(template)))


def of_the_day(call: str) -> bool:
    """Whether such a call writes something that changes within a day."""
    return bool(TIME_OF_DAY.search(call))


def question() -> dict[str, Any]:
    """A chat whose parts can be found again in the text that a template makes of it."""
    function = {"name": TOOL, "description": "Nothing.", "parameters": {"type": "object", "properties": {}}}
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": USER}]
    return {"messages": messages, "tools": [{"type": "function", "function": function}]}


def tools_place(rendered: str) -> Place | None:
    """Where tools stand to the system text in a rendered question; None where one of them is not in it."""
    system, tool = rendered.find(SYSTEM), rendered.find(TOOL)
    if min(system, tool) < 0:
        return None
    return "before" if tool < system else "behind"


def tools_place_in_go(template: str) -> Place | None:
    """The same for a Go template's text, by what it mentions first; None where it does not mention both."""
    system, tools = template.find(".System"), template.find(".Tools")
    # `{{ if or .System .Tools }}` opens most templates and says nothing: what counts is where each is written out.
    written = [
        re.search(pattern, template) for pattern in (r"\{\{-?\s*\.System\s*-?\}\}", r"range[^}]*\.Tools|\{\{-?\s*\.Tools")
    ]
    if written[0] and written[1]:
        system, tools = written[0].start(), written[1].start()
    if min(system, tools) < 0:
        return None
    return "before" if tools < system else "behind"
