import os
import signal
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from gateway.engine.calls import fetch
from gateway.engine.child import ChildError
from gateway.engine.gguf import Model
from gateway.engine.server import EngineServer
from tests.support.engine import ModelFile, StartEngine, needs_engine

pytestmark = needs_engine

SYSTEM = {"role": "system", "content": "You look after the garden, the greenhouse and the pond. " * 40}


def ask(server: EngineServer, text: str, **fields: Any) -> dict[str, Any]:
    """The `timings` of one short answer."""
    body = {"messages": [SYSTEM, {"role": "user", "content": text}], "max_tokens": 4, "temperature": 0, **fields}
    timings: dict[str, Any] = server.post("/v1/chat/completions", body)["timings"]
    return timings


def test_a_repeated_prompt_is_read_from_the_cache(start_engine: StartEngine) -> None:
    server = start_engine("-c", "8192", "-np", "2")
    cold, warm, other = ask(server, "Is the pond frozen?"), ask(server, "Is the pond frozen?"), ask(server, "Open the roof.")
    total = cold["prompt_n"]
    assert total > 400
    assert cold["cache_n"] == 0
    assert (warm["cache_n"], warm["prompt_n"]) == (total - 1, 1)  # one token is always evaluated again
    assert other["cache_n"] > 400
    assert other["prompt_n"] < 30


@pytest.mark.parametrize(("kind", "least"), [("hybrid", 0.9), ("hybrid-swa", 0.1)])
def test_models_that_cannot_rewind_go_on_from_a_checkpoint(kind: str, least: float, start_engine: StartEngine) -> None:
    server = start_engine("-c", "8192", "-np", "1", model=Model(kind))
    cold, other = ask(server, "Is the pond frozen?"), ask(server, "Open the roof.")
    assert cold["cache_n"] == 0
    assert other["cache_n"] >= least * cold["prompt_n"]


def test_a_restart_keeps_the_port_and_forgets_everything(start_engine: StartEngine) -> None:
    server = start_engine("-c", "8192", "-np", "2")
    url, pid, mark = server.url, server.pid, server.get("/props")["media_marker"]
    ask(server, "Is the pond frozen?")
    server.restart()
    assert server.url == url
    assert server.pid != pid
    assert server.get("/props")["media_marker"] != mark
    assert ask(server, "Is the pond frozen?")["cache_n"] == 0


def test_it_starts_again_on_its_port_after_a_crash(start_engine: StartEngine) -> None:
    server = start_engine("-c", "1024")
    url = server.url
    server.kill()
    assert not server.running
    with pytest.raises(OSError, match="refused"):
        fetch(f"{url}/health", timeout=5)
    server.start()
    assert server.get("/health") == {"status": "ok"}
    assert server.url == url


def test_it_stops_in_order(start_engine: StartEngine) -> None:
    server = start_engine("-c", "1024")
    assert server.stop() == 0
    assert not server.running
    assert server.stop() == 0  # again is harmless
    assert "cleaning up before exit" in server.log.read_text()


def test_interrupting_it_is_an_orderly_end_too(start_engine: StartEngine) -> None:
    server = start_engine("-c", "1024")
    os.kill(server.pid, signal.SIGINT)
    deadline = time.monotonic() + 10
    while server.running and time.monotonic() < deadline:
        time.sleep(0.02)
    assert server.stop() == 0


def test_the_log_says_why_it_did_not_start(tmp_path: Path) -> None:
    with pytest.raises(ChildError, match="no such model file"):
        EngineServer(tmp_path / "none.gguf", tmp_path).start()


def test_a_second_start_is_refused(start_engine: StartEngine) -> None:
    server = start_engine("-c", "1024")
    with pytest.raises(ChildError, match="running already"):
        server.start()


def test_errors_of_the_server_are_raised(model_file: ModelFile, start_engine: StartEngine) -> None:
    server = start_engine("-c", "1024", "--api-key", "secret")
    with pytest.raises(HTTPError, match="401") as caught:
        server.get("/props")
    caught.value.close()


def test_a_given_port_is_used(start_engine: StartEngine, model_file: ModelFile, tmp_path: Path) -> None:
    first = start_engine("-c", "1024")
    first.stop()
    with EngineServer(model_file(), tmp_path, "-c", "1024", "-t", "1", port=first.port) as second:
        assert second.url == first.url
        assert second.get("/health") == {"status": "ok"}
