"""What `warmgate run` warns of once it has looked at its backends."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.cli._sources import FileSource, Overrides
from gateway.cli.run import doubts
from gateway.config import loads
from gateway.server.gateway import Gateway
from gateway.values import Probe
from tests.support.process import GatewayProcess

NONE = "no backends are configured"
FILE = FileSource(Path("w.yaml"), Overrides((), None))


async def told(text: str, tmp_path: Path, *seen: str) -> list[str]:
    """The warnings, where the backends have been seen to be of these kinds."""
    gateway = Gateway(loads(f"state_dir: {tmp_path}\n{text}", "w.yaml", {}))
    for (name, state), kind in zip(gateway.fleet.states.items(), seen, strict=False):
        gateway.fleet.saw(name, state.config, Probe(kind, up=True), 0.0)
    found = list(doubts(gateway, FILE))
    await gateway.aclose()
    return found


async def test_a_file_without_backends_is_warned_of_once(tmp_path: Path) -> None:
    async with GatewayProcess(tmp_path, {"backends": {}}) as gateway:
        pass
    assert gateway.log.count(NONE) == 1


@pytest.mark.parametrize(
    ("text", "seen", "count"),
    [
        ("identity: ollama\nbackends: { a: { url: 'http://127.0.0.1:1' } }", ("vllm",), 1),
        ("identity: ollama\nbackends: { a: { url: 'http://127.0.0.1:1' } }", ("ollama",), 0),
        ("identity: ollama\nbackends: { a: { url: 'http://127.0.0.1:1' } }", (), 1),
        ("backends: { a: { url: 'http://127.0.0.1:1' } }", ("vllm",), 0),
        (
            "identity: ollama\nlisten: ['127.0.0.1:2', '127.0.0.1:3']\nbackends: { a: { url: 'http://127.0.0.1:1' } }",
            ("vllm",),
            1,
        ),
    ],
)
async def test_an_identity_that_no_backend_has(text: str, seen: tuple[str, ...], count: int, tmp_path: Path) -> None:
    found = await told(text, tmp_path, *seen)
    assert len(found) == count
    assert all("identity ollama: no backend" in line for line in found)
