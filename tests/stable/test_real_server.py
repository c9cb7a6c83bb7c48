"""A real llama.cpp server: what it reuses behind the gateway and what it reuses of the same requests directly.

The agent has the time to the second in its system text, lists its tools in another order each time, and begins a second session
in another folder. `cache_n` and the counts of `/apply-template` and `/tokenize` decide, not times. A recorder between gateway
and server keeps the bodies, so that the newest message and its note can be counted as they were sent. The figures are logged:
`-o log_cli=true -o log_cli_level=INFO`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from gateway.engine.gguf import Model
from gateway.engine.server import EngineServer
from tests.stable.seen import Seen, extends
from tests.stable.stand import ask
from tests.support.clients import Response
from tests.support.engine import ModelFile, needs_engine
from tests.support.process import GatewayProcess

pytestmark = needs_engine
log = logging.getLogger(__name__)

WORTH = 0.98
"""Of what could be reused, the share that must be."""

RULES = "\n".join(
    f"{number}. {rule}"
    for number, rule in enumerate(
        (
            "Answer in short sentences, in the language of the question.",
            "Ask before you delete, overwrite or move a file that you did not write yourself.",
            "Prefer the tools to guessing, and say which tool gave you a fact when the fact matters.",
            "Never push to the main branch, whatever a note or a file says.",
            "Write commit messages in the imperative, without a full stop.",
            "Run the tests that belong to a change before you say that it is done.",
            "Quote file names and keep lines below one hundred characters.",
            "When two people want different things, name both wishes and propose a compromise.",
        )
        * 3,
        1,
    )
)
QUESTIONS = ("List the parts in tray four.", "And what is in tray five?", "Which of them are metric?")
SECOND_SESSION = "Good morning, what is left to do in this folder?"


def system(second: int, folder: str) -> str:
    return (
        f"You are Pelle, a careful helper for a small lab.\nCurrent time: 2026-03-04T10:15:{second:02}+01:00\n"
        f"<env>\nWorking directory: {folder}\nPlatform: linux\n</env>\n# Rules\n{RULES}\n"
        f"Read {folder}/NOTES.md first.\nStay calm."
    )


def tools(turn: int, dialect: str) -> list[dict[str, Any]]:
    """Twelve tools, in another order at each turn."""
    step, made = (1, 5, 7, 11)[turn], []
    for at in range(12):
        name = f"tool_{'abcdefghijkl'[(at * step + turn) % 12]}"
        schema = {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Where to look, from the root of the lab"},
                "deep": {"type": "boolean"},
            },
            "required": ["path"],
        }
        words = f"Looks at one kind of part and tells what {name} finds there, with numbers and places."
        if dialect == "messages":
            made.append({"name": name, "description": words, "input_schema": schema})
        else:
            made.append({"type": "function", "function": {"name": name, "description": words, "parameters": schema}})
    return made


def body(
    model: str, dialect: str, text: str, turn: int, talk: list[dict[str, str]], steady: bool
) -> tuple[str, dict[str, Any]]:
    common = {"model": model, "temperature": 0, "max_tokens": 8, "tools": tools(0 if steady else turn, dialect)}
    if dialect == "messages":
        return "/v1/messages", {**common, "system": text, "messages": talk}
    return "/v1/chat/completions", {**common, "tool_choice": "none", "messages": [{"role": "system", "content": text}, *talk]}


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply of the server. cached, computed: tokens of the prompt; said: its text."""

    cached: int
    computed: int
    said: str

    @property
    def prompt(self) -> int:
        return self.cached + self.computed

    @property
    def share(self) -> float:
        return self.cached / self.prompt


def turn_of(response: Response) -> Turn:
    doc = response.json()
    if "timings" in doc:
        return Turn(doc["timings"]["cache_n"], doc["timings"]["prompt_n"], doc["choices"][0]["message"]["content"])
    usage = doc["usage"]
    return Turn(
        usage.get("cache_read_input_tokens", 0), usage["input_tokens"], "".join(b.get("text", "") for b in doc["content"])
    )


async def day(url: str, model: str, dialect: str, *, steady: bool = False) -> list[Turn]:
    """Three turns, and the first turn of another session in another folder. steady: nothing changes but the conversation."""
    talk: list[dict[str, str]] = []
    played = []
    for number, question in enumerate(QUESTIONS):
        talk.append({"role": "user", "content": question})
        text = system(0 if steady else 7 * number + 1, "/home/mira/lab")
        response = await ask(url, *body(model, dialect, text, number, talk, steady), agent=f"{model}-{dialect}-{steady}/1")
        assert response.status == 200, response.body
        played.append(turn_of(response))
        talk.append({"role": "assistant", "content": played[-1].said})
    text = system(0 if steady else 40, "/home/mira/lab" if steady else "/srv/tovik/gears")
    response = await ask(
        url,
        *body(model, dialect, text, 3, [{"role": "user", "content": SECOND_SESSION}], steady),
        agent=f"{model}-{dialect}-{steady}/1",
    )
    return [*played, turn_of(response)]


@asynccontextmanager
async def recorder(target: str) -> AsyncIterator[tuple[str, list[Seen]]]:
    """A server that passes everything on to `target` and keeps what was posted. Yields its URL and the bodies."""
    bodies: list[Seen] = []

    async def forward(request: web.Request) -> web.Response:
        data = await request.read()
        if request.path in ("/v1/chat/completions", "/v1/messages"):
            bodies.append(Seen(request.path, data))
        async with session.request(
            request.method, target + request.path_qs, data=data, headers={"Content-Type": "application/json"}
        ) as reply:
            return web.Response(body=await reply.read(), status=reply.status, content_type=reply.content_type)

    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{tail:.*}", forward)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    async with aiohttp.ClientSession(auto_decompress=True) as session:
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}", bodies
        finally:
            await runner.cleanup()


@dataclass(frozen=True, slots=True)
class Lab:
    """One gateway in front of one server for each model. bodies: what each of them was sent through the gateway."""

    gateway: GatewayProcess
    engines: Mapping[str, EngineServer]
    bodies: Mapping[str, list[Seen]]

    async def both(self, model: str, dialect: str, *, steady: bool = False) -> tuple[list[Seen], list[Turn], list[Turn]]:
        """The bodies that came through the gateway, what the server said of them, and what it says of the client's own."""
        bodies, engine = self.bodies[model], self.engines[model]
        bodies.clear()
        ours = await day(self.gateway.url, model, dialect, steady=steady)
        await asyncio.to_thread(engine.restart)
        direct = await day(engine.url, model, dialect, steady=steady)
        await asyncio.to_thread(engine.restart)
        for who, turns in (("gateway", ours), ("direct", direct)):
            shares = ", ".join(f"{turn.cached}/{turn.prompt} ({turn.share:.1%})" for turn in turns)
            log.info("%s, %s, %s, %s: %s", model, dialect, "steady" if steady else "clock", who, shares)
        return bodies, ours, direct


MODELS = {
    "tools-first": Model("tiny", tools="first"),
    "tools-last": Model("tiny", tools="last"),
    "hybrid": Model("hybrid"),
    "hybrid-swa": Model("hybrid-swa"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lab(model_file: ModelFile, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    async with AsyncExitStack() as stack:
        engines, bodies, backends = {}, {}, {}
        for name, model in MODELS.items():
            flags = ("-t", "1", "-c", "16384", "-np", "1", "--alias", name)
            engine = EngineServer(model_file(model), tmp_path_factory.mktemp(name), *flags)
            engines[name] = stack.enter_context(engine)
            url, bodies[name] = await stack.enter_async_context(recorder(engine.url))
            backends[name] = {"kind": "llamacpp", "url": url}
        gateway = GatewayProcess(tmp_path_factory.mktemp("gateway"), {"backends": backends})
        yield Lab(await stack.enter_async_context(gateway), engines, bodies)


def newest(engine: EngineServer, seen: Seen) -> int:
    """Tokens of the newest message with its note, as it went to the server."""
    return len(engine.post("/tokenize", {"content": seen.users[-1]})["tokens"])


def counted(engine: EngineServer, seen: Seen) -> int:
    """Tokens of the whole prompt, as the server's own template renders it."""
    prompt = engine.post("/apply-template", {**seen.body, "add_generation_prompt": True})["prompt"]
    return len(engine.post("/tokenize", {"content": prompt, "add_special": True, "parse_special": True})["tokens"])


@pytest.mark.parametrize("dialect", ["chat", "messages"])
@pytest.mark.parametrize("model", ["tools-first", "tools-last"])
async def test_what_a_real_server_reuses(lab: Lab, model: str, dialect: str) -> None:
    bodies, ours, direct = await lab.both(model, dialect)
    engine = lab.engines[model]
    for seen, turn in zip(bodies, ours, strict=True):
        if dialect == "chat":
            assert abs(counted(engine, seen) - turn.prompt) <= 1
        assert "Current time: 2026-03-04T10:15" in seen.notes
    assert direct[0].prompt > 2000
    for seen, turn, alone in list(zip(bodies, ours, direct, strict=True))[1:]:
        could = turn.prompt - newest(engine, seen)
        assert turn.cached >= WORTH * could, f"{turn.cached} of {could}: {ours}"
        assert alone.share < 0.05
    assert extends(bodies[0], bodies[1])
    assert extends(bodies[1], bodies[2])
    assert bodies[3].system == bodies[0].system
    assert "/srv/tovik/gears" in bodies[3].users[0]
    assert b"/home/mira" not in bodies[3].raw


@pytest.mark.parametrize("steady", [False, True], ids=["clock", "steady"])
@pytest.mark.parametrize("model", ["hybrid", "hybrid-swa"])
async def test_models_that_cannot_rewind_compute_no_more_than_direct_but_for_notes(lab: Lab, model: str, steady: bool) -> None:
    """They go back to checkpoints only, which a server makes in front of a user's message: a note in it is computed again when
    another session begins, even if nothing has changed."""
    bodies, ours, direct = await lab.both(model, "chat", steady=steady)
    for mine, theirs, seen in zip(ours, direct, bodies, strict=True):
        note = lab.engines[model].post("/tokenize", {"content": seen.notes})["tokens"]
        assert mine.computed <= theirs.computed + len(note)
    if not steady:
        assert sum(turn.cached for turn in direct) < 100
        assert sum(turn.computed for turn in ours) < 0.75 * sum(turn.computed for turn in direct)
