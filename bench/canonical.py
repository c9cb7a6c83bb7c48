"""What the canonical form costs, in CPU time of this process.

    steady     what the rules cost a client that sends the same system text and tools again (60 kB)
    steady+    the same request as a whole: rules, notes, and new bytes with a note in them
    first      a system text or tools seen for the first time, per 100 kB

`--check` fails above the limits: 50 microseconds for `steady`, 5 milliseconds for each `first`. The best of several rounds
counts, because other work on the machine only ever adds to a round.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import orjson

from gateway.canonical.canonicalize import Canonicalizer
from gateway.canonical.ledger import Ledger
from gateway.canonical.settings import Settings
from gateway.dialects.prompt import Prompt
from gateway.dialects.prompt_read import read
from gateway.values import Client

PATH = "/v1/chat/completions"
WHO = Client("127.0.0.1", "bench/1", "")
NOW = 1_000_000.0
LIMITS = {"steady": 50e-6, "first: system text": 5e-3, "first: tools": 5e-3, "first: both": 5e-3}
PARAGRAPH = (  # like the prompts of agents: mostly rules in prose, some of them about what the detectors look for
    "You are a careful helper in a small lab. Read the file before you change it, and say what you changed.\n"
    "- Prefer the tools to guessing, and never print secrets.\n"
    "- Use the current date only if the user asks for it.\n"
    "- Branch names are short; the main branch is never pushed to.\n\n"
    "## Working with files\n"
    "Open the session log when the user asks about a request. Quote at most ten lines of it, with their numbers.\n"
    "Say which file a line is from. Leave out what the user has seen already, and never invent a line that is not there.\n"
    "1. Look for the newest entry first and read backwards from it until the cause is clear.\n"
    "2. Name the cause in one sentence, then the change that mends it.\n"
    "3. Ask before you touch more than three files, or any file outside the tray that was named.\n\n"
    "## Answering\n"
    "Answer in short sentences without decoration. Use lists only where an order matters, tables only for numbers.\n"
    "- Metric units, no emoji, file names in quotes, code in fences with the name of its language.\n"
    "- If a question has no answer in the files, say so and say where you have looked for it.\n"
    "- Keep what the user calls things: a tray is a tray, even if the file calls it a box.\n\n"
)


def body(system: int, tools: int) -> dict[str, Any]:
    """A chat request with so many bytes of system text and of tools in another order than the canonical one."""
    text = "Now: 2026-03-04 10:15:07\nWorking directory: /home/mira/lab\n" + PARAGRAPH * (system // len(PARAGRAPH))
    listed: list[dict[str, Any]] = []
    size = 0
    while size < tools:
        listed.append(tool(len(listed)))
        size += len(orjson.dumps(listed[-1])) + 1
    messages = [
        {"role": "system", "content": text},
        {"role": "user", "content": "List the parts in tray 4."},
        {"role": "assistant", "content": "Tray 4 holds 12 gears."},
        {"role": "user", "content": "And tray 5?"},
    ]
    return {"model": "m", "messages": messages, "tools": listed[::-1], "stream": True}


def tool(number: int) -> dict[str, Any]:
    fields = {
        f"field_{at}": {"type": "string", "description": "The path of the file, from the root of the lab."} for at in range(6)
    }
    schema = {"type": "object", "properties": fields, "required": ["field_0"]}
    function = {
        "name": f"tool_{number:03d}",
        "description": "Reads a file and gives back its text. " * 12,
        "parameters": schema,
    }
    return {"type": "function", "function": function}


def best(run: Callable[[Any], object], prepare: Callable[[], Any], rounds: int) -> float:
    """CPU seconds of the quickest of `rounds` runs, each with what `prepare` gives."""
    found = []
    for _ in range(rounds):
        given = prepare()
        start = time.process_time_ns()
        run(given)
        found.append((time.process_time_ns() - start) / 1e9)
    return min(found)


def parsed(raw: bytes) -> Prompt:
    prompt = read(PATH, orjson.loads(raw))
    assert prompt is not None
    return prompt


def steady() -> dict[str, float]:
    raw = orjson.dumps(body(30_000, 30_000))
    canonicalizer, ledger = Canonicalizer(Settings()), Ledger()
    for _ in range(3):
        result = canonicalizer.canonicalize(raw, parsed(raw), WHO, ledger, NOW)
        ledger.apply(result.remember, NOW)
    assert {"tools", "clock", "place", "note"} == set(result.counts), result.reason
    spans = canonicalizer.locate(raw, parsed(raw), ())

    def rules(prompt: Prompt) -> None:
        canonicalizer.judge(raw, prompt, spans, WHO, ledger)

    return {
        "steady": best(rules, lambda: parsed(raw), 300),
        "steady+": best(lambda prompt: canonicalizer.canonicalize(raw, prompt, WHO, ledger, NOW), lambda: parsed(raw), 300),
    }


def first(system: int, tools: int) -> float:
    """CPU seconds per 100 kB."""
    raw = orjson.dumps(body(system, tools))
    seconds = best(
        lambda one: one[0].canonicalize(raw, one[1], WHO, Ledger(), NOW), lambda: (Canonicalizer(Settings()), parsed(raw)), 30
    )
    return seconds * 100_000 / len(raw)


def main() -> int:
    parser = argparse.ArgumentParser(description="What the canonical form costs, in CPU time.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true", help="exit 1 above the limits")
    options = parser.parse_args()
    first(100_000, 100_000)  # automata are built on the way
    found = steady()
    found |= {"first: system text": first(100_000, 0), "first: tools": first(0, 100_000), "first: both": first(50_000, 50_000)}
    over = [name for name, limit in LIMITS.items() if found[name] > limit]
    if options.json:
        print(json.dumps({"seconds": found, "limits": LIMITS, "over": over}))
    else:
        print(f"{'':22}{'microseconds':>14}{'limit':>10}")
        for name, seconds in found.items():
            limit = f"{LIMITS[name] * 1e6:.0f}" if name in LIMITS else ""
            print(f"{name:22}{seconds * 1e6:14.1f}{limit:>10}{'  over' if name in over else ''}")
    return 1 if options.check and over else 0


if __name__ == "__main__":
    sys.exit(main())
