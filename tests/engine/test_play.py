import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gateway.engine.agent import FOLDERS, QUESTIONS, Conversation
from gateway.engine.play import PlayError, Reply, ask
from gateway.engine.server import EngineServer
from tests.support.engine import needs_engine

Serve = Callable[..., str]

NOW = datetime(2026, 5, 14, 9, 30, 7)


def data(event: object) -> bytes:
    return b"data: " + (event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n\n"


def delta(**fields: object) -> bytes:
    return data({"choices": [{"index": 0, "delta": fields}]})


DONE = data(b"[DONE]")
ROLE = delta(role="assistant", content=None)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server that answers with those pieces; a number is a pause in seconds."""
    with ExitStack() as running:

        def start(*pieces: bytes | float) -> str:
            class Handler(BaseHTTPRequestHandler):
                def do_POST(self) -> None:
                    self.rfile.read(int(self.headers["content-length"]))
                    self.send_response(200)
                    self.end_headers()
                    for piece in pieces:
                        time.sleep(piece) if isinstance(piece, float) else self.wfile.write(piece)

                def log_message(self, *args: Any) -> None:
                    pass

            server = running.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            running.callback(thread.join, 5)
            running.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_address[1]}"

        yield start


def test_text_times_and_counts(serve: Serve) -> None:
    usage = {"prompt_tokens": 200, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 150}}
    url = serve(ROLE, 0.15, delta(content="Hel"), 0.15, delta(content="lo"), data({"choices": [], "usage": usage}), DONE)
    reply = ask(url, {}, timeout=10)
    assert (reply.text, reply.prompt, reply.cached, reply.reused) == ("Hello", 200, 150, 0.75)
    assert 0.15 <= reply.ttft < reply.duration - 0.14  # the role is not the first token


def test_heartbeats_are_not_the_first_token(serve: Serve) -> None:
    url = serve(b": waiting\n\n", delta(), data({"choices": []}), delta(content=""), 0.15, delta(content="Hello"), DONE)
    assert ask(url, {}, timeout=10).ttft >= 0.15


def test_not_told_is_not_zero(serve: Serve) -> None:
    assert ask(serve(delta(content="Hello"), DONE), {}, timeout=10).reused is None
    assert Reply("", 0.1, 0.2, prompt=10, cached=0).reused == 0.0


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ((ROLE, delta(content="Hel")), "closed before the answer was complete"),
        ((ROLE, DONE), "without an answer"),
        ((ROLE, data({"error": {"code": "overloaded"}}), DONE), "answered with an error.*overloaded"),
    ],
)
def test_a_reply_that_cannot_be_used_is_an_error(pieces: tuple[bytes, ...], message: str, serve: Serve) -> None:
    with pytest.raises(PlayError, match=message):
        ask(serve(*pieces), {}, timeout=10)


def test_a_reply_that_trickles_has_a_limit(serve: Serve) -> None:
    url = serve(*[delta(content="x"), 0.1] * 20, DONE)
    with pytest.raises(PlayError, match="not complete after"):
        ask(url, {}, timeout=0.5)


def test_silence_has_a_limit(serve: Serve) -> None:
    with pytest.raises(TimeoutError):
        ask(serve(ROLE, 1.0, DONE), {}, timeout=0.3)


def names(body: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in body["tools"]]


def test_time_folder_and_order_of_tools_change_and_nothing_else() -> None:
    talk, other = (Conversation("m", folder) for folder in FOLDERS)
    talk.ask(QUESTIONS[0])
    other.ask(QUESTIONS[0])
    first, later = talk.body(NOW), other.body(NOW + timedelta(seconds=1), order=1)
    system = first["messages"][0]["content"]
    assert (system.count("2026-05-14 09:30:07"), system.count(FOLDERS[0])) == (1, 1)
    assert later["messages"][0]["content"] == system.replace("09:30:07", "09:30:08").replace(*FOLDERS)
    assert names(later) != names(first)
    assert sorted(names(later)) == sorted(names(first))
    assert later["messages"][1:] == first["messages"][1:]


def test_the_same_moment_and_order_give_the_same_request() -> None:
    talk = Conversation("m", FOLDERS[0])
    talk.ask(QUESTIONS[0])
    assert talk.body(NOW, 2) == talk.body(NOW, 2)


def test_no_two_orders_of_the_demo_begin_with_the_same_tool() -> None:
    first = [names(Conversation("m", FOLDERS[0]).body(NOW, order))[0] for order in range(3)]
    assert len(set(first)) == 3


@needs_engine
def test_a_conversation_at_one_moment_only_grows_and_stays_warm(engine: EngineServer) -> None:
    talk = Conversation("tiny", FOLDERS[0], max_tokens=16)
    talk.ask(QUESTIONS[0])
    cold, first = talk.body(NOW), ask(engine.url, talk.body(NOW), timeout=30)
    talk.answer(first.text)
    talk.ask(QUESTIONS[1])
    second = ask(engine.url, talk.body(NOW), timeout=30)
    assert talk.body(NOW)["messages"][: len(cold["messages"])] == cold["messages"]
    assert first.prompt is not None
    assert second.cached is not None
    assert first.prompt > 1_200
    assert second.cached >= first.prompt


@needs_engine
def test_the_tools_are_in_the_prompt(engine: EngineServer) -> None:
    talk = Conversation("tiny", FOLDERS[0])
    talk.ask(QUESTIONS[0])
    prompt = engine.post("/apply-template", talk.body(NOW))["prompt"]
    assert [name for name in ("get_weather", "water_bed", "save_note") if f'"name": "{name}"' not in prompt] == []
    assert "# What you remember" in prompt
