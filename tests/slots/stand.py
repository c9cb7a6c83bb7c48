"""Twin llama.cpp servers with the same flags, one of them behind the real gateway: each scene is played on both, and compared.

What was prefilled is what the server itself counts, so that whatever the gateway sends on its own account is in it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.engine.gguf import Model
from gateway.engine.server import EngineServer
from tests.slots.players import MODEL, Dialect, Got, Played, Player
from tests.slots.scenes import Scene, heads
from tests.slots.tap import Tap
from tests.stable.stand import eventually
from tests.support.clients import fetch
from tests.support.engine import ModelFile
from tests.support.process import GatewayProcess, Metrics

RATE = "300/s"
"""Tokens that cost is judged by: the tiny models read a hundred times as many, so that time would never be worth anything."""

NOT_AHEAD = {"warmup": {"learn": {"keep": 0}}}
"""No prefix is read ahead of requests: what that costs is not what is compared here."""

MARGIN, EACH_HEAD = 1.02, 64
"""How much more than the server alone may be prefilled: a factor, and tokens for each beginning of a prompt."""


@dataclass(frozen=True, slots=True)
class Mode:
    """How a server is started. parallel: `-np`, None = not given; ram: with its cache in memory; files: slots can be saved."""

    parallel: int | None = None
    ram: bool = True
    files: bool = False
    kind: str = "tiny"

    def __str__(self) -> str:
        count = "default" if self.parallel is None else f"np{self.parallel}"
        return "-".join([*([self.kind] if self.kind != "tiny" else []), count, *(["files"] if self.files else []),
                         *([] if self.ram else ["noram"])])  # fmt: skip

    @property
    def slots(self) -> int:
        """llama.cpp makes four where it is not told."""
        return self.parallel or 4

    @property
    def flags(self) -> tuple[str, ...]:
        parallel = () if self.parallel is None else ("-np", str(self.parallel))
        return (*parallel, *(() if self.ram else ("--cache-ram", "0")))


@dataclass(frozen=True, slots=True)
class Compared:
    """One scene, played directly and through the gateway. The counts are tokens that the servers prefilled meanwhile."""

    scene: Scene
    direct: Played
    through: Played
    prefilled_direct: int
    prefilled: int

    @property
    def allowed(self) -> float:
        return MARGIN * self.prefilled_direct + EACH_HEAD * heads(self.scene)

    @property
    def share(self) -> float:
        """Of the prompt tokens, how many were prefilled behind the gateway."""
        return self.prefilled / self.through.prompt

    @property
    def prompts(self) -> float:
        """How many of its prompts were prefilled behind the gateway, for a scene in which all are of one size."""
        return self.share * len(self.through.answers)

    def assert_no_worse(self) -> None:
        assert self.prefilled <= self.allowed, self

    def __str__(self) -> str:
        return (
            f"directly {self.prefilled_direct}, through the gateway {self.prefilled} of {self.through.prompt} tokens\n"
            f"directly:\n{self.direct}\nthrough the gateway:\n{self.through}"
        )


@dataclass(slots=True)
class Lab:
    mode: Mode
    direct: EngineServer
    server: EngineServer
    gateway: GatewayProcess

    async def compare(self, scene: Scene, dialect: Dialect) -> Compared:
        before = [await prefilled(one) for one in (self.direct, self.server)]
        direct = await Player(self.direct.url, dialect).play(scene)
        through = await Player(self.gateway.url, dialect).play(scene)
        after = [await prefilled(one) for one in (self.direct, self.server)]
        return Compared(scene, direct, through, after[0] - before[0], after[1] - before[1])


async def prefilled(server: EngineServer) -> int:
    """Prompt tokens that this server has computed since its start."""
    metrics = Metrics.parse((await fetch(f"{server.url}/metrics")).body.decode())
    return int(metrics.value("llamacpp:prompt_tokens_total"))


def start(model: Path, directory: Path, mode: Mode, *flags: str) -> EngineServer:
    """One server in this mode. Whoever calls stops it."""
    directory.mkdir()
    files = ("--slot-save-path", str(directory)) if mode.files else ()
    common = ("-t", "1", "-c", "32768", "--metrics", "--alias", MODEL)
    return EngineServer(model, directory, *common, *mode.flags, *files, *flags).start()


@asynccontextmanager
async def lab(mode: Mode, model_file: ModelFile, directory: Path, **config: Any) -> AsyncIterator[Lab]:
    """config: top-level keys of the gateway's configuration over the usual ones."""
    model = model_file(Model(mode.kind))
    async with AsyncExitStack() as stack:
        servers = []
        for name in ("direct", "behind"):
            servers.append(start(model, directory / name, mode))
            stack.callback(servers[-1].stop)
        backends = {"backends": {"local": backend(servers[1])}}
        gateway = await stack.enter_async_context(GatewayProcess(directory, {**backends, **NOT_AHEAD, **config}))
        yield Lab(mode, *servers, gateway)


@dataclass(slots=True)
class Tapped:
    """One server whose requests are written down, behind the gateway."""

    server: EngineServer
    tap: Tap
    gateway: GatewayProcess

    def player(self, dialect: Dialect, *headers: tuple[str, str]) -> Player:
        return Player(self.gateway.url, dialect, *headers)

    async def row(self, got: Got) -> dict[str, Any]:
        """What the gateway keeps of a finished request."""
        return await row(self.gateway, got.id)


async def row(gateway: GatewayProcess, id: str) -> dict[str, Any]:
    async def found() -> dict[str, Any] | None:
        response = await fetch(f"{gateway.admin}/requests/{id}")
        return response.json() if response.status == 200 else None

    return await eventually(found, f"a row for {id}")  # type: ignore[no-any-return]


@asynccontextmanager
async def tapped(
    mode: Mode, model_file: ModelFile, directory: Path, *flags: str, keys: Mapping[str, Any] | None = None, **config: Any
) -> AsyncIterator[Tapped]:
    """flags: of the server; keys: of the backend; config: top-level keys of the gateway's configuration."""
    async with AsyncExitStack() as stack:
        server = start(model_file(Model(mode.kind)), directory / "engine", mode, *flags)
        stack.callback(server.stop)
        tap = await stack.enter_async_context(Tap(server.url))
        backends = {"backends": {"local": backend(tap, **(keys or {}))}}
        gateway = await stack.enter_async_context(GatewayProcess(directory, {**backends, **NOT_AHEAD, **config}))
        tap.heard.clear()  # what it asked to find out which server this is
        yield Tapped(server, tap, gateway)


def backend(server: EngineServer | Tap, **keys: Any) -> Mapping[str, Any]:
    return {"kind": "llamacpp", "url": server.url, "prefill_rate": RATE, **keys}
