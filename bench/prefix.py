"""What the identity of a prompt costs, in CPU time of this process, for bodies of 400 kB.

    texts      one long system text and long tool results
    talk       200 messages of 2,000 characters
    chatter    1,000 messages of 400 characters

Each figure is the chain of the whole prompt and a look into an index that holds it. `new`: not a message of it was seen before;
`again`: all of it was, as all but the last messages of a conversation are. `--check` fails above 2 milliseconds, for `chatter`
only when it comes again. The best of several rounds counts, because other work on the machine only ever adds to a round.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from gateway.dialects.prompt import Prompt
from gateway.dialects.prompt_read import read
from gateway.prefix.chain import build
from gateway.prefix.index import Index, Place
from gateway.prefix.nodes import Nodes

PATH = "/v1/chat/completions"
SIZE = 400_000
LIMIT = 2e-3
ROUNDS = 40
LINE = "Prefer the tools to guessing, and say which tool gave you a fact when the fact matters; quote file names.\n"


def texts() -> list[dict[str, Any]]:
    """A system text of 60 kB and results of tools of 20 kB each."""
    messages = [{"role": "system", "content": _text(60_000)}, {"role": "user", "content": "Look at all trays."}]
    for number in range((SIZE - 60_000) // 20_000):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": f'{{"tray": {number}}}'}}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})  # type: ignore[dict-item]
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": _text(20_000)})
    return messages


def talk() -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    return [{"role": roles[number % 2], "content": f"{number} {_text(1996)}"} for number in range(SIZE // 2000)]


def chatter() -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    return [{"role": roles[number % 2], "content": f"{number:4} {_text(395)}"} for number in range(SIZE // 400)]


def _text(size: int) -> str:
    return (LINE * (size // len(LINE) + 1))[:size]


def cost(messages: list[dict[str, Any]]) -> tuple[float, float]:
    """CPU seconds of a chain and a look-up, when it is new and when it comes again."""
    body = json.dumps({"model": "m", "messages": messages})
    index, nodes = Index(), Nodes(b"secret")
    index.keep(build(b"secret", _parsed(body), "m", nodes=nodes), Place("b", "m"), 1.0, 100_000, 0)
    new = min(_round(_parsed(body), index, Nodes(b"secret")) for _ in range(ROUNDS))
    return new, min(_round(_parsed(body), index, nodes) for _ in range(ROUNDS))


def _parsed(body: str) -> Prompt:
    """The prompt in a body, in strings of its own: Python remembers what it has hashed of a string."""
    prompt = read(PATH, json.loads(body))
    assert prompt is not None
    return prompt


def _round(prompt: Prompt, index: Index, nodes: Nodes) -> float:
    start = time.process_time_ns()
    chain = build(b"secret", prompt, "m", nodes=nodes)
    found = index.match(chain, "m")
    seconds = (time.process_time_ns() - start) / 1e9
    assert found["b"].nodes == len(chain.digests)
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description="What the identity of a 400 kB prompt costs, in CPU time.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true", help="exit 1 above the limit")
    options = parser.parse_args()
    found = {}
    for case in (texts, talk, chatter):
        found[f"{case.__name__}, new"], found[f"{case.__name__}, again"] = cost(case())
    over = [name for name, seconds in found.items() if seconds > LIMIT and name != "chatter, new"]
    if options.json:
        print(json.dumps({"seconds": found, "limit": LIMIT, "over": over}))
    else:
        for name, seconds in found.items():
            print(f"{name:16}{seconds * 1e6:8.0f} microseconds of {LIMIT * 1e6:.0f}{'  over' if name in over else ''}")
    return 1 if options.check and over else 0


if __name__ == "__main__":
    sys.exit(main())
