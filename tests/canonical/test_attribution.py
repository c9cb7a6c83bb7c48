"""Rule `attribution`: the rotating header at the very start goes, and nothing else ever does."""

from __future__ import annotations

import orjson
import pytest

from tests.canonical.desk import CONVERSING, Desk, Dialect, anthropic, anthropic_blocks, chat, system_of, users_of

HEADER = "x-anthropic-billing-header: cc_version=2.1.90.1ab; cc_entrypoint=cli; cch=0f3d1;"
USER = [("user", f"What is '{HEADER}' for?")]


@pytest.mark.parametrize("dialect", [d for d in CONVERSING if d.__name__ not in ("three_systems", "anthropic_blocks")])
def test_a_leading_line_is_dropped(dialect: Dialect) -> None:
    result = Desk().send(dialect(f"{HEADER}\nYou are Pelle.", USER))
    assert system_of(result) == "You are Pelle."
    assert users_of(result) == [USER[0][1]]
    assert result.notes == {}


def test_a_leading_block_is_dropped_with_its_comma() -> None:
    path, body = anthropic("", USER)
    for header in (HEADER, HEADER.replace("0f3d1", "b7720") + "\n"):
        body["system"] = [{"type": "text", "text": header}, {"type": "text", "text": "You are Pelle."}]
        result = Desk().send((path, body))
        assert orjson.loads(result.body)["system"] == [{"type": "text", "text": "You are Pelle."}]


def test_the_only_block_is_dropped_too() -> None:
    path, body = anthropic("", USER)
    body["system"] = [{"type": "text", "text": HEADER}]
    assert orjson.loads(Desk().send((path, body)).body)["system"] == []


def test_a_message_of_its_own_is_emptied_and_stays() -> None:
    path, body = chat(HEADER, USER)
    body["messages"].insert(1, {"role": "system", "content": "You are Pelle."})
    out = orjson.loads(Desk().send((path, body)).body)["messages"]
    assert [message["content"] for message in out] == ["", "You are Pelle.", USER[0][1]]


def test_elsewhere_it_stays() -> None:
    text = f"You are Pelle.\n{HEADER}\nStay calm."
    assert system_of(Desk().send(chat(text, USER))) == text
    assert HEADER in system_of(Desk().send(anthropic_blocks(HEADER, USER)))
