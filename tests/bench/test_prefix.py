"""The bench of the prefix's identity measures what it says."""

from __future__ import annotations

import orjson

from bench import prefix


def test_the_bodies_have_the_size_that_is_claimed() -> None:
    for messages in (prefix.texts(), prefix.talk()):
        assert abs(len(orjson.dumps(messages)) - prefix.SIZE) < 0.1 * prefix.SIZE


def test_a_round_finds_the_whole_prompt() -> None:
    few, many = prefix.cost(prefix.talk()[:4]), prefix.cost(prefix.talk())
    assert 0 < few[0] < many[0]
    assert 0 < few[1] < many[1] < many[0]
