"""Clients that give up on silence survive a long prefill; a beat is no token. Times are scaled 1:300 or so: beats come every
0.3 s here, where clients give up after 1.5 s and the backend is silent for 2 s."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable

import pytest

from tests.plumbing.rig import CALLS, DOCUMENTS, STREAMS, Call, Rig, call_id, error_message
from tests.support.clients import Piece, Response, events, lines
from tests.support.connection import Step
from tests.support.steps import chunk, full, json_reply, rst, sleep, status

BEAT = 0.3
SILENCE = 2.0
PATIENCE = 1.5

RIG = {"config": {"heartbeat": {"after_headers": f"{BEAT}s", "before_headers": f"{BEAT}s", "non_stream": f"{BEAT}s"}}}


async def ask(rig: Rig, call: Call) -> tuple[Response, list[Piece]]:
    async with rig.client() as client:
        await client.send(call.raw())
        response = await client.response()
        pieces = [piece async for piece in response.pieces()]
    return response, pieces


def gaps(response: Response, pieces: list[Piece]) -> list[float]:
    times = [response.at, *(piece.at for piece in pieces)]
    return [after - before for before, after in itertools.pairwise(times)]


def frames(call: Call, body: bytes) -> list[object]:
    return lines(body) if call.ndjson else events(body)


async def ask_all(rig: Rig, calls: list[Call], steps: Callable[[Call], Iterable[Step]]) -> list[tuple[Response, list[Piece]]]:
    """All at once, because each is silent for seconds."""
    for call in calls:
        rig.upstream(call).once(call.path, *steps(call))
    return await asyncio.gather(*(ask(rig, call) for call in calls))


@pytest.mark.parametrize("where", ["before headers", "after headers"])
async def test_a_stream_survives_silence(rig: Rig, where: str) -> None:
    def steps(call: Call) -> Iterable[Step]:
        answer = call.answer()
        return (sleep(SILENCE), *answer) if where == "before headers" else (answer[0], sleep(SILENCE), *answer[1:])

    async with rig.expects(*["ok"] * len(STREAMS)) as changes:
        answers = await ask_all(rig, STREAMS, steps)
    assert changes.value("warmgate_time_to_first_token_seconds_count") == len(STREAMS)
    assert changes.value("warmgate_time_to_first_token_seconds_sum") >= SILENCE * len(STREAMS), "a beat is no token"
    for call, (response, pieces) in zip(STREAMS, answers, strict=True):
        check_survived(call, response, pieces)


def check_survived(call: Call, response: Response, pieces: list[Piece]) -> None:
    assert response.status == 200
    assert response.header("content-type").startswith("application/x-ndjson" if call.ndjson else "text/event-stream")
    assert max(gaps(response, pieces)) < PATIENCE, "a client that gives up after a second of silence is still there"
    assert response.body.endswith(call.whole()), "what the backend said is unchanged"
    assert response.body != call.whole()


async def test_a_beat_is_in_the_words_of_the_dialect(rig: Rig) -> None:
    beats = {}
    for name in ("openai_chat", "openai_completions", "anthropic", "ollama_chat", "ollama_generate", "openai_responses"):
        call = CALLS[name]
        rig.upstream(call).once(call.path, sleep(BEAT * 2), *call.answer())
        response, _ = await ask(rig, call)
        beats[name] = response.body.removesuffix(call.whole())
    assert beats["anthropic"].startswith(b"event: ping\n")
    for name in ("openai_chat", "openai_completions", "ollama_chat", "ollama_generate"):
        assert f'"model":"{CALLS[name].model}"'.encode() in beats[name].replace(b" ", b"")
    assert b'"delta":{}' in beats["openai_chat"].replace(b" ", b"")
    assert b'"text":""' in beats["openai_completions"].replace(b" ", b"")
    assert b'"done":false' in beats["ollama_chat"].replace(b" ", b"")
    assert b'"content":""' in beats["ollama_chat"].replace(b" ", b"")
    assert b'"response":""' in beats["ollama_generate"].replace(b" ", b"")
    assert beats["openai_responses"].startswith(b":")


async def test_silence_between_events_and_no_beat_inside_one(rig: Rig) -> None:
    def steps(call: Call) -> Iterable[Step]:
        whole = call.events()
        middle = len(whole[1]) // 2
        head = status(200, ("Content-Type", call.shape.content_type), ("Transfer-Encoding", "chunked"))
        cut = (chunk(whole[0]), sleep(BEAT * 2.5), chunk(whole[1][:middle]), sleep(BEAT * 2.5), chunk(whole[1][middle:]))
        return (head, *cut, *(chunk(event) for event in whole[2:]), chunk(b""))

    async with rig.expects(*["ok"] * len(STREAMS)):
        answers = await ask_all(rig, STREAMS, steps)
    for call, (response, _) in zip(STREAMS, answers, strict=True):
        frames(call, response.body)  # each frame is whole
        for event in call.events():
            assert event in response.body
        assert len(response.body) > len(call.whole())


async def test_after_an_early_start_errors_travel_in_the_stream(rig: Rig) -> None:
    def steps(call: Call) -> Iterable[Step]:
        details = {"message": "no such thing", "type": "x", "code": 400}
        return (sleep(BEAT * 2.5), *json_reply({"error": "no such thing" if call.ndjson else details}, 400))

    async with rig.expects(*["client_error"] * len(STREAMS)):
        answers = await ask_all(rig, STREAMS, steps)
    for call, (response, _) in zip(STREAMS, answers, strict=True):
        assert response.status == 200
        last = [frame for frame in frames(call, response.body) if isinstance(frame, dict)][-1]
        assert error_message(call.path, last) == "no such thing"
        assert b"[DONE]" not in response.body


async def test_a_document_survives_silence_when_asked_for(rig: Rig) -> None:
    async with rig.expects(*["ok"] * len(DOCUMENTS)) as changes:
        answers = await ask_all(rig, DOCUMENTS, lambda call: (sleep(SILENCE), *call.answer()))
    assert changes.value("warmgate_time_to_first_token_seconds_count") == 0
    for call, (response, pieces) in zip(DOCUMENTS, answers, strict=True):
        assert response.status == 200
        assert max(gaps(response, pieces)) < PATIENCE
        assert response.body.lstrip(b" ") == call.whole(), "leading spaces, then the same document"
        assert response.body != call.whole()
        assert response.complete


async def test_a_document_that_fails_after_an_early_start_is_an_error_document(rig: Rig) -> None:
    async with rig.expects(*["upstream_error"] * len(DOCUMENTS)):
        answers = await ask_all(rig, DOCUMENTS, lambda _: (sleep(BEAT * 2.5), status(200, ("Content-Length", "100")), rst()))
    for call, (response, _) in zip(DOCUMENTS, answers, strict=True):
        assert error_message(call.path, response.json()) is not None


async def test_no_beat_follows_the_end(rig: Rig) -> None:
    """The backend keeps the connection open after its last event."""

    def steps(call: Call) -> Iterable[Step]:
        return (*call.answer()[:-1], sleep(BEAT * 3), chunk(b""))

    async with rig.expects(*["ok"] * len(STREAMS)):
        answers = await ask_all(rig, STREAMS, steps)
    for call, (response, _) in zip(STREAMS, answers, strict=True):
        assert response.body == call.whole()


@pytest.mark.parametrize("call", [CALLS["openai_chat"], CALLS["ollama_chat"]], ids=call_id)
async def test_a_quick_answer_has_no_beat(rig: Rig, call: Call) -> None:
    rig.upstream(call).once(call.path, *call.answer())
    response, _ = await ask(rig, call)
    assert response.body == call.whole()


async def test_passed_through_requests_have_none(rig: Rig) -> None:
    rig.llama.once("/v1/embeddings", sleep(BEAT * 3), *full(b'{"data": []}'))
    response = await rig.send(CALLS["openai_chat"].raw().replace(b"/v1/chat/completions", b"/v1/embeddings"))
    assert response.body == b'{"data": []}'
