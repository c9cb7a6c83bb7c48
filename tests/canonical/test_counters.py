"""Rule `counters`: numbers that count while the agent runs move; limits and settings stay."""

from __future__ import annotations

import pytest

from tests.canonical.desk import DIALECTS, Dialect, alone

MOVES = [
    ("Token budget: 198,766", "198,766"),
    ("Tokens remaining: 12345", "12345"),
    ("Token usage: 1234/200000; 198766 remaining", "198766"),
    ("- Context used: 43%", "43%"),
    ("**Uptime:** 3 days, 4:05", "4:05"),
    ("PID: 48213", "48213"),
    ("CPU usage: 12.5%", "12.5%"),
    ("Load average: 0.52, 0.58, 0.59", "0.58"),
    ("Memory usage: 5.1 GB / 16 GB", "5.1 GB"),
    ("Battery: 81%", "81%"),
    ("Turn: 3/20", "3/20"),
    ("<budget:token_budget>200000</budget:token_budget>", "200000"),
    ("| Disk free | 120 GB |", "120 GB"),
    ('{"tokens_used": 1234, "style": "plain"}', "1234"),
    ("You have 12,345 tokens remaining.", "12,345"),
    ("Verbleibende Tokens: 12345", "12345"),
    ("Tokens restants : 12345", "12345"),
    ("Tokens restantes: 12345", "12345"),
    ("剩余 token：12345", "12345"),
    ("残りトークン：12345", "12345"),
]

STAYS = [
    "Max tokens: 4096",
    "Temperature: 0.7",
    "CPU: 8 cores",
    "Turns: 10",
    "Budget: ask before you spend money",
    "Uptime: must be 99.9 percent or better",
    "Keep the token budget in mind.",
    "Rule 3: 12 gears per tray",
    "Usage: gear [options]",
    "Context: the lab has 12 trays",
    "Example:\nTokens remaining: 12345",
    "```\nPID: 48213\n```",
]


@pytest.mark.parametrize(("statement", "value"), MOVES)
def test_what_counts_moves_and_is_told(statement: str, value: str) -> None:
    system, note = alone("You are Pelle.\n\n" + statement + "\n\nStay calm.")
    assert value not in system
    assert value in note


@pytest.mark.parametrize("statement", STAYS)
def test_limits_and_words_stay(statement: str) -> None:
    text = "You are Pelle.\n\n" + statement + "\n\nStay calm."
    assert alone(text) == (text, "")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_in_every_dialect(dialect: Dialect) -> None:
    system, note = alone("You are Pelle.\nTokens remaining: 12345", dialect)
    assert "12345" not in system
    assert "Tokens remaining: 12345" in note
