"""What a prompt that is read in steps is made of: its tokens, and ever longer beginnings of it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

import orjson

from gateway.backends.control import Control
from gateway.prefix.chain import Chain
from gateway.values import Call

COMPLETION = "/completion"


async def cut(control: Control, prompt: str) -> list[int]:
    answer = await control.post("/tokenize", {"content": prompt, "add_special": True, "parse_special": True})
    found = answer.field("tokens")
    return found if isinstance(found, list) and all(isinstance(token, int) for token in found) else []


def step_call(call: Call, tokens: list[int]) -> Call:
    """A beginning of the prompt, as a request to the server's own API."""
    body = {"prompt": tokens, "n_predict": 1, "cache_prompt": True, "stream": False}
    if call.model is not None:
        body["model"] = call.model
    return replace(call, dialect="llamacpp", path=COMPLETION, raw=orjson.dumps(body), body=body)


def beginning(chain: Chain, share: float) -> Chain | None:
    """The nodes that lie within this share of a chain, None where there is none."""
    nodes = bisect_right(chain.sizes, chain.size * share)
    if not nodes:
        return None
    parts = bisect_right(chain.ends, nodes)
    return replace(
        chain,
        digests=chain.digests[:nodes],
        sizes=chain.sizes[:nodes],
        kinds=chain.kinds[:parts],
        ends=chain.ends[:parts],
        owns=chain.owns[:parts],
        numbers=chain.numbers[:parts],
        spelled=chain.spelled[:parts],
        replies=chain.replies[:parts],
    )
