"""A scripted llama.cpp server with slots and slot files, to have things go wrong at a chosen moment.

It reuses by characters of the rendered prompt, so that a test can count; what it was asked is kept in order.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from aiohttp import web

from tests.support.process import free_port

BYTES = 100
"""Of one character in a slot file."""


@dataclass
class Slot:
    text: str = ""
    busy: bool = False
    task: int = -1


@dataclass
class Slotted:
    """model: what it says first, and where it is read from; refuse: act -> status; lie: act -> characters more than there are;
    hold: act -> an event without which it does not go on; headers_last: the headers of an answer come with its end."""

    slots: list[Slot]
    emptied: bool = False
    model: tuple[int, float] = (5, -0.5)
    path: str = "/models/a.gguf"
    mark: str = "process 1"
    refuse: dict[str, int] = field(default_factory=dict)
    lie: dict[str, int] = field(default_factory=dict)
    hold: dict[str, asyncio.Event] = field(default_factory=dict)
    headers_last: bool = False

    def __post_init__(self) -> None:
        self.files: dict[str, str] = {}
        self.asked: list[str] = []
        self.tasks = 0
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/props", self._props)
        app.router.add_get("/lora-adapters", self._adapters)
        app.router.add_get("/slots", self._rows)
        app.router.add_post("/slots/{slot}", self._act)
        app.router.add_post("/completion", self._prove)
        app.router.add_post("/v1/chat/completions", self._chat)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        await self._runner.cleanup()

    def acts(self, *words: str) -> list[str]:
        """What was asked of these kinds, in order."""
        return [one for one in self.asked if one.split()[0] in words]

    async def _props(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "model_path": self.path,
                "build_info": "b1",
                "media_marker": self.mark,
                "default_generation_settings": {"n_ctx": 4096},
            }
        )

    async def _adapters(self, request: web.Request) -> web.Response:
        return web.json_response([])

    async def _rows(self, request: web.Request) -> web.Response:
        self.asked.append("slots")
        return web.json_response(
            [
                {
                    "id": n,
                    "is_processing": one.busy,
                    **({"id_task": one.task, "n_prompt_tokens": len(one.text)} if one.task >= 0 else {}),
                }
                for n, one in enumerate(self.slots)
            ]
        )

    async def _act(self, request: web.Request) -> web.Response:
        number, act, name = int(request.match_info["slot"]), request.query["action"], (await request.json())["filename"]
        if name.startswith(".."):
            return web.json_response({"error": {"message": "name"}}, status=self.refuse.get("asked", 400))
        self.asked.append(f"{act} {number} {name.rpartition('-')[2]}")
        if act in self.hold:
            await self.hold[act].wait()
        slot = self.slots[number]
        if act in self.refuse or (act == "restore" and name not in self.files):
            slot.text = "" if act == "restore" else slot.text
            return web.json_response({"error": {"message": "no"}}, status=self.refuse.get(act, 400))
        if act == "save":
            self.files[name] = slot.text
        else:
            slot.text, slot.task = self.files[name], max(slot.task, 0)
        size = len(slot.text) + self.lie.get(act, 0)
        names = ("n_saved", "n_written", "save_ms") if act == "save" else ("n_restored", "n_read", "restore_ms")
        return web.json_response({"id_slot": number, names[0]: size, names[1]: size * BYTES, "timings": {names[2]: 1.0}})

    async def _prove(self, request: web.Request) -> web.Response:
        number = (await request.json())["id_slot"]
        self.asked.append(f"prove {number}")
        self._start(number, "proof")
        if "prove" in self.refuse:
            return web.json_response({"error": {"message": "no"}}, status=self.refuse["prove"])
        token, logprob = self.model
        return web.json_response({"completion_probabilities": [{"id": token, "logprob": logprob}]})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        text = "".join(f"{one['role']}:{one['content']};" for one in body["messages"])
        number = body.get("id_slot", self._best(text))
        slot, kind = self.slots[number], "lead" if body["max_tokens"] == 1 else "chat"
        reused = 0
        for one, other in zip(slot.text, text, strict=False):
            if one != other:
                break
            reused += 1
        self.asked.append(f"{kind} {number} {reused}")
        self._start(number, text)
        if kind in self.refuse:
            return web.json_response({"error": {"message": "no"}}, status=self.refuse[kind])
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        if not self.headers_last:
            await response.prepare(request)
        slot.busy = True
        try:
            if kind in self.hold:
                await self.hold[kind].wait()
        finally:
            slot.busy = False
        usage = {"prompt_tokens": len(text), "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": reused}}
        if self.headers_last:
            return web.json_response({"usage": usage, "choices": []})
        await response.write(str({"usage": usage, "choices": []}).replace("'", '"').encode())
        return response

    def _best(self, text: str) -> int:
        """The idle slot that begins most alike."""
        idle = [n for n, one in enumerate(self.slots) if not one.busy]
        return max(idle, key=lambda n: (text.startswith(self.slots[n].text[:20]) and bool(self.slots[n].text), -n))

    def _start(self, number: int, text: str) -> None:
        slot = self.slots[number]
        slot.text, slot.task, self.tasks = text, self.tasks, self.tasks + 1
        if self.emptied:
            for one in self.slots:
                if one is not slot and not one.busy:
                    one.text = ""
