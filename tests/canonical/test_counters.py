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
    ("Turn: 6 of 20", "6 of 20"),
    ("Token budget: 4,096 of 16,384 left", "4,096"),
    ("Tokens used: 4096 of 16384", "4096"),
    ("Verbrauchte Tokens: 4.096 von 16.384", "4.096"),
    ("Jetons restants : 4 096 sur 16 384", "4 096"),
    ("Tokens usados: 4096 de 16384", "4096"),
    ("已用令牌：4096/16384", "4096"),
    ("使用済みトークン：4096 / 16384", "4096"),
    ("Step 6 of 20", "6 of 20"),
    ("Turno 6 de 20.", "6 de 20"),
    ("(Context window 37% full)", "37%"),
    ("You have used 12,400 of your 50,000 tokens; 37,600 remain.", "12,400"),
    ("Rate limit: 41 of 60 requests left this minute", "41 of 60"),
    ("Battery: 78%, signal -61 dBm", "-61"),
    ("🔋 Battery: 81 %, charging", "81"),
    ("Batería al 84 % y tiempo de actividad de 11 días.", "11 días"),
    ('{"battery_pct": 81.5, "uptime_s": 40312}', "40312"),
    ("Weather: 14 °C, light rain (updated 19:42)", "19:42"),
    ("Elapsed: 00:04:12", "00:04:12"),
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
    "Token budget: 16,384, of which 4,096 are for the answer",
    "Rate limit: 60 requests a minute",
    "Step 3 of 5: install the parts.",
    "Step 1 of 2\nStep 2 of 2",
    "## Step 3 of 5",
    "Uptime of 99.9 % is promised.",
    "Weather: say it only if asked",
    "Target temperature: 21 °C",
    "Schritt 3 von 5: montieren",
    "Étape 3 sur 5 : monter",
    "轮次：最多20",
    "ターン：20回まで",
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
