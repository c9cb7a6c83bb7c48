"""Rules of the user's own: move, drop and freeze."""

from __future__ import annotations

import pytest

from gateway.canonical.settings import Action, Settings, UserRule
from tests.canonical.desk import DIALECTS, Desk, Dialect, chat, system_of, users_of

USER = [("user", "Hello")]


def text(ticket: str) -> str:
    return f"You are Pelle.\nTicket: {ticket}\nAnswer in short sentences.\nStay calm.\n```\nTicket: {ticket}\n```"


def settings(action: Action) -> Settings:
    return Settings(custom=(UserRule("ticket", r"Ticket: [A-Z]+-\d+", action),))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_move(dialect: Dialect) -> None:
    result = Desk(settings("move")).send(dialect(text("LAB-7"), USER))
    assert "You are Pelle.\n[see context]\nAnswer" in system_of(result)
    assert "<context>\nTicket: LAB-7\n</context>" in users_of(result)[-1]
    assert "```\nTicket: LAB-7\n```" in system_of(result)  # code is never touched


def test_drop() -> None:
    result = Desk(settings("drop")).send(chat(text("LAB-7"), USER))
    assert "You are Pelle.\n\nAnswer" in system_of(result)
    assert users_of(result) == ["Hello"]


def test_freeze() -> None:
    desk = Desk(settings("freeze"))
    for ticket in ("LAB-7", "LAB-8", "LAB-9"):
        result = desk.send(chat(text(ticket), USER))
        assert "You are Pelle.\nTicket: LAB-7\n" in system_of(result)
        assert users_of(result) == ["Hello"]
