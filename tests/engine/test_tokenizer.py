import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.engine.server import EngineServer
from gateway.engine.tokenizer import CONTROL, vocabulary
from tests.support.engine import needs_engine

PROSE = (
    "You are a careful assistant. Use the tools that are listed below, say what you are about to do before you do it, and "
    "never make up the result of a call. The user lives in a small town and wants short answers with metric units. "
) * 5


def test_every_byte_has_a_token_and_no_token_comes_twice() -> None:
    words = vocabulary()
    assert len(set(words.tokens)) == len(words.tokens)
    assert len([token for token in words.tokens if len(token) == 1]) == 256
    assert words.tokens[-len(CONTROL) :] == CONTROL


def test_merges_only_join_tokens_that_exist() -> None:
    words = vocabulary()
    known = set(words.tokens)
    for merge in words.merges:
        left, right = merge.split(" ")
        assert {left, right, left + right} <= known


def test_merges_are_learnt_in_the_order_of_their_use() -> None:
    assert vocabulary(100).merges == vocabulary().merges[:100]


@pytest.mark.parametrize(
    ("token", "printable"), [("\u0120the", True), ("the", True), ("t", False), ("<|im_end|>", False), ("##", False)]
)
def test_printable(token: str, printable: bool) -> None:
    assert vocabulary().is_printable(token) is printable


@needs_engine
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_the_server_reads_any_text_and_gives_it_back(engine: EngineServer, text: str) -> None:
    tokens = engine.post("/tokenize", {"content": text, "parse_special": False})["tokens"]
    assert engine.post("/detokenize", {"tokens": tokens})["content"] == text


@needs_engine
def test_prompt_like_text_takes_about_four_characters_a_token(engine: EngineServer) -> None:
    tokens = engine.post("/tokenize", {"content": PROSE})["tokens"]
    assert 3.5 < len(PROSE) / len(tokens) < 5.5


@needs_engine
def test_chat_markers_are_one_token_each(engine: EngineServer) -> None:
    pieces = engine.post("/tokenize", {"content": "<|im_start|><|im_end|>", "parse_special": True})["tokens"]
    assert pieces == [vocabulary().id_of("<|im_start|>"), vocabulary().id_of("<|im_end|>")]
