"""Rule `ids`: ids of one session or request move; ids that say who stay."""

from __future__ import annotations

import pytest

from tests.canonical.desk import DIALECTS, Dialect, alone

MOVES = [
    ("Session ID: 7f3a9c1e-1111-4222-8333-abcdefabcdef", "7f3a9c1e"),
    ("- Request ID: req_8f3k2j1x", "req_8f3k2j1x"),
    ("**Message id:** 6680", "6680"),
    ("Session: sess_ab12cd34", "sess_ab12cd34"),
    ("trace_id=4bf92f3577b34da6a3ce929d0e0e4736", "4bf92f35"),
    ("Nonce: 8d7e6f", "8d7e6f"),
    ("<session_id>a1b2c3d4</session_id>", "a1b2c3d4"),
    ("| Conversation ID | c-9912 |", "c-9912"),
    ('{"schema":"inbound.v1","message_id":"6680","sender_id":"mh-204"}', "6680"),
    ('{"messageId": 6680, "chat": "x"}', "6680"),
    ("Your session id is a1b2c3d4.", "a1b2c3d4"),
    ("Sitzungs-ID: a1b2c3d4", "a1b2c3d4"),
    ("Identifiant de session : a1b2c3d4", "a1b2c3d4"),
    ("ID de sesión: a1b2c3d4", "a1b2c3d4"),
    ("会话ID：a1b2c3d4", "a1b2c3d4"),
    ("セッションID：a1b2c3d4", "a1b2c3d4"),
    ("Correlation ID - 7c9e6679f7b1", "7c9e6679f7b1"),
    ("Thread-ID: <a81f.4410@mail.example>", "a81f.4410"),
    ('<session id="s_81f3a0" locale="en-GB">', "s_81f3a0"),
    ("[trace: 4bf92f3577b34da6a3ce929d0e0e4736 span: 00f067aa0ba902b7]", "00f067aa0ba902b7"),
    ('Inbound context (trusted metadata): {"channel": "x", "message_id": "6678"}', "6678"),
    ("Call SID: CA81f3a0b2c4d6", "CA81f3a0b2c4d6"),
    ("Vorgangsnummer: V-2026-00418", "V-2026-00418"),
]

STAYS = [
    "User ID: mh-204",
    "Sender ID: mh-204",
    "Session: quiet harbour",
    "Session ID: ask the user for it",
    "Message id: the id of the message",
    "Never print a session id.",
    "Example:\nRequest ID: req_8f3k2j1x",
    "Error 404: not found",
    "```\nsession_id: a1b2c3d4\n```",
    'Answer in this format:\n```json\n{"message_id": "6680"}\n```',
    "Product ID - 7c9e6679f7b1",
    '<task id="1">',
    '<rule id="81f3a0b2">',
    'Reply with this metadata: {"session_id": "81f3a0b2"}',
]


@pytest.mark.parametrize(("statement", "value"), MOVES)
def test_an_id_of_the_moment_moves_and_is_told(statement: str, value: str) -> None:
    system, note = alone("You are Pelle.\n\n" + statement + "\n\nStay calm.")
    assert value not in system
    assert value in note


@pytest.mark.parametrize("statement", STAYS)
def test_other_ids_and_words_stay(statement: str) -> None:
    text = "You are Pelle.\n\n" + statement + "\n\nStay calm."
    assert alone(text) == (text, "")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_in_every_dialect(dialect: Dialect) -> None:
    text = 'Inbound context:\n```json\n{"channel":"chat-x","message_id":"6680","sender_id":"mh-204"}\n```\nStyle guide.'
    system, note = alone(text, dialect)
    assert '"channel":"chat-x","message_id":"[see context]","sender_id":"mh-204"' in system
    assert note == "<context>\nmessage_id: 6680\n</context>\n\n"
