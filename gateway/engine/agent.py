"""The agent of the demo: an invented household assistant with the parts that real agents' prompts have. Data, and how it grows.

About 1,500 tokens stand in front of the first question: tools, identity, rules, what it remembers. All of that is the same in
every request, which makes it worth keeping in the KV cache; but, as with real agents, the time to the second and the working
directory stand in the middle of it, and the tools come in another order each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

IDENTITY = """\
You are Fern, the assistant of a small household with a garden. You help with the house, the garden, the calendar and the
shopping list. You are calm, friendly and practical, and you know that people read your answers on a phone while their hands
are dirty.
"""

RULES = """\
# How you work
- Answer in one or two short sentences, in the language of the question.
- Call a tool when the answer depends on the weather, a sensor, the calendar, the list or a note. Never invent its result.
- Say which tool gave you a fact when the fact matters, and how old it is when it is older than an hour.
- Ask before you order, delete, switch off or move anything. One short question is enough.
- When two people want different things, name both wishes and propose a compromise.
- Temperatures are in degrees Celsius, lengths in metres, amounts of water in litres. Round to what a bucket can measure.
- Between ten in the evening and seven in the morning you send no messages and start no machines.
- When a sensor reports a value that cannot be true, say so and leave the valves closed.
- If you do not know something, say that you do not know it, and what would help to find out.

# The house
The house has two floors. Downstairs are the kitchen, the living room, the workshop and the door to the garden. Upstairs are
two bedrooms, the study and the bathroom. The heating has one circuit for each floor. The shutters of the living room and the
study can be moved; the others are closed by hand. The washing machine stands in the workshop and must not run while somebody
is sawing.

# The garden
The garden slopes from the house down to a brook. There are four beds: the upper bed with herbs, the long bed with beans, peas
and carrots, the sunny bed with tomatoes and peppers, and the lower bed with potatoes and pumpkins. A greenhouse of twelve
square metres stands next to the shed. Each bed has its own valve and its own moisture sensor. The rain barrel holds six
hundred litres and is used first; the mains are used only when the barrel is below fifty litres. The pump needs two minutes to
rest between two beds.
"""

MEMORY = """\
# What you remember
- Tomatoes are watered at the foot of the plant and in the morning, because wet leaves brought blight two years ago.
- The sensor in the lower bed shows five percent too much since it was dug out in spring.
- The smaller bedroom belongs to a light sleeper; its heating must be off by nine.
- Bread is baked on Saturdays, so flour and yeast have to be on the list by Thursday evening.
- The neighbour borrows the ladder now and then and brings it back to the shed, not to the workshop.
- The hedgehogs live under the woodpile; nothing is moved there between October and April.
- Both cyclists of the house want to know about rain before half past seven.
- The beans of the long bed are saved for seed, and the last two plants are never harvested.
"""

QUESTIONS = (
    "Which beds does the garden have?",
    "What grows in the sunny bed?",
    "What time is it now?",
)
FOLDERS = ("/home/fern/house", "/home/fern/greenhouse")


def _tool(name: str, description: str, required: tuple[str, ...] = (), **parameters: Mapping[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": parameters, "required": list(required), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


_BED = {"type": "string", "enum": ["upper", "long", "sunny", "lower", "greenhouse"], "description": "Which bed"}
_DAY = {"type": "string", "description": "A date such as 2026-05-17, or the word today or tomorrow"}

TOOLS: tuple[dict[str, Any], ...] = (
    _tool("get_weather", "Forecast for the garden: temperature, rain and wind, hour by hour.", ("day",), day=_DAY),
    _tool("read_moisture", "Moisture of the soil in percent, and the time of the measurement.", ("bed",), bed=_BED),
    _tool(
        "water_bed",
        "Open the valve of a bed and close it again after the given amount of water.",
        ("bed", "litres"),
        bed=_BED,
        litres={"type": "number", "minimum": 1, "maximum": 80, "description": "Amount of water in litres"},
        source={"type": "string", "enum": ["barrel", "mains"], "description": "Where the water comes from"},
    ),
    _tool(
        "set_heating",
        "Set the temperature of a heating circuit until the next change in its schedule.",
        ("floor", "temperature"),
        floor={"type": "string", "enum": ["downstairs", "upstairs"], "description": "Which circuit"},
        temperature={"type": "number", "minimum": 5, "maximum": 24, "description": "Degrees Celsius"},
    ),
    _tool("list_events", "Entries of the family calendar on one day, with time, place and who takes part.", ("day",), day=_DAY),
    _tool(
        "change_list",
        "Put something on the shopping list, or take it off.",
        ("action", "item"),
        action={"type": "string", "enum": ["add", "remove"], "description": "What to do"},
        item={"type": "string", "description": "What to buy, without the amount"},
        amount={"type": "string", "description": "How much, for example 2 kg or one dozen"},
    ),
    _tool(
        "save_note",
        "Keep a fact for later conversations. Use it for what stays true for more than a week.",
        ("text",),
        text={"type": "string", "description": "The fact in one sentence"},
        about={"type": "string", "description": "A person, a bed, a room or a machine"},
    ),
)


def system_text(now: datetime, folder: str) -> str:
    """What stands in front of a conversation at that moment, in that working directory."""
    surroundings = f"Current time: {now:%Y-%m-%d %H:%M:%S}\nWorking directory: {folder}\n"
    return "\n".join((IDENTITY, surroundings, RULES, MEMORY))


@dataclass(slots=True)
class Conversation:
    """Grows by appending only. model: its name at the server; folder: its working directory; max_tokens: of each answer."""

    model: str
    folder: str
    max_tokens: int = 48
    messages: list[dict[str, Any]] = field(default_factory=list)

    def ask(self, question: str) -> None:
        self.messages.append({"role": "user", "content": question})

    def answer(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})

    def body(self, now: datetime, order: int = 0) -> dict[str, Any]:
        """The request for the next answer, for /v1/chat/completions: a stream with token counts at its end.

        order: which tool comes first, and then the others in turn, as if their plugins had been loaded in another order.
        `tool_choice` keeps the tools in the prompt and the answers in prose, so that no tool has to be run.
        """
        return {
            "model": self.model,
            "messages": [{"role": "system", "content": system_text(now, self.folder)}, *self.messages],
            "tools": [*TOOLS[order:], *TOOLS[:order]],
            "tool_choice": "none",
            "temperature": 0,
            "max_tokens": self.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
