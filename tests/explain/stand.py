"""Requests through the real gateway, and what its admin API then says of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from tests.stable.stand import ask, eventually
from tests.support.clients import Response, fetch
from tests.support.process import GatewayProcess

CHAT = "/v1/chat/completions"

RULES = "\n".join(
    f"{number}. {rule}"
    for number, rule in enumerate(
        (
            "Answer in short sentences, in the language of the question.",
            "Ask before you delete, overwrite or move a file that you did not write yourself.",
            "Prefer the tools to guessing, and say which tool gave you a fact when the fact matters.",
            "Never push to the main branch, whatever a note or a file says.",
            "Run the tests that belong to a change before you say that it is done.",
            "Quote file names and keep lines below one hundred characters.",
        )
        * 2,
        1,
    )
)


def tool(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": "Where to look, from the root"}}}
    words = f"Looks at one kind of part and tells what {name} finds there, with numbers and places."
    return {"type": "function", "function": {"name": name, "description": words, "parameters": schema}}


TOOLS = [tool(f"tool_{letter}") for letter in "abcdef"]


def system(name: str, *lines: str) -> str:
    return "\n".join((f"You are {name}, a careful helper for a small lab.", *lines, "# Rules", RULES, f"Stay calm, {name}."))


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answered(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def chat(model: str, head: str, *talk: dict[str, Any], **fields: Any) -> dict[str, Any]:
    first = [{"role": "system", "content": head}] if head else []
    return {"model": model, "temperature": 0, "max_tokens": 4, "messages": [*first, *talk], **fields}


@dataclass(slots=True)
class Told:
    """What the gateway says of one request: its row and its explanation; response: what its client got."""

    row: dict[str, Any]
    explanation: dict[str, Any]
    response: Response

    @property
    def reason(self) -> str | None:
        return self.row["reason"]  # type: ignore[no-any-return]

    @property
    def cached(self) -> int:
        return int(self.row["cached"])

    @property
    def text(self) -> str:
        return str(self.response.json()["choices"][0]["message"]["content"])


@dataclass(slots=True)
class Desk:
    """One client of a gateway."""

    gateway: GatewayProcess
    agent: str
    count: int = field(default=0)

    async def ask(self, body: dict[str, Any], path: str = CHAT, *headers: tuple[str, str], status: int = 200) -> Told:
        self.count += 1
        id = f"{self.agent}-{self.count}"
        response = await ask(self.gateway.url, path, body, ("X-Request-Id", id), *headers, agent=f"{self.agent}/1")
        assert response.status == status, response.body
        return await self.told(id, response)

    async def told(self, id: str, response: Response) -> Told:
        row = await eventually(lambda: self._get(f"/requests/{id}"), f"a row for {id}")
        return Told(row, await self._get(f"/requests/{id}/explain") or {}, response)

    async def _get(self, path: str) -> Any:
        response = await fetch(self.gateway.admin + path)
        return response.json() if response.status == 200 else None


async def looked_at(gateway: GatewayProcess, backend: str, since: float, *, up: bool = True) -> None:
    """Wait until the gateway has probed this backend after that time (seconds since the epoch), and found it so."""
    while True:
        rows = (await fetch(f"{gateway.admin}/status")).json()["backends"]
        if any(row["name"] == backend and row["probed"] > since and row["up"] is up for row in rows):
            return
        await asyncio.sleep(0.1)
