"""The pins of the configuration, from their files: what is read, and what is said of a file that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from gateway import config as configuration
from gateway.cli import main
from gateway.control.pin_files import PinProblem, read_pins
from gateway.state.pins import LARGEST, Pin

TOOLS = [{"type": "function", "function": {"name": "light", "parameters": {"type": "object", "properties": {}}}}]


def settings(tmp_path: Path, **pin: Any) -> configuration.Config:
    text = orjson.dumps({"warmup": {"pins": [{"name": "house", "model": "coder", **pin}]}}).decode()
    file = tmp_path / "warmgate.yaml"
    file.write_text(text)
    return configuration.load(file, {})


def read(tmp_path: Path, **pin: Any) -> Pin | PinProblem:
    [found] = read_pins(settings(tmp_path, **pin).warmup.pins)
    return found


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/chat/completions", "messages"),
        ("/api/chat", "messages"),
        ("/v1/messages", "system"),
        ("/v1/responses", "instructions"),
    ],
)
def test_text_and_tools_stand_where_each_api_has_them(tmp_path: Path, path: str, field: str) -> None:
    (tmp_path / "house.md").write_text("You are the house.\n")
    (tmp_path / "tools.json").write_bytes(orjson.dumps(TOOLS))
    pin = read(tmp_path, path=path, system_file="house.md", tools_file="tools.json")
    assert isinstance(pin, Pin), pin
    body = orjson.loads(pin.body)
    assert "You are the house." in orjson.dumps(body[field]).decode()
    assert body["tools"] == TOOLS
    assert (pin.path, pin.source) == (path, "config")


def test_of_a_whole_request_the_beginning_counts(tmp_path: Path) -> None:
    talk = [{"role": "system", "content": "You are the house."}, {"role": "user", "content": "A secret question."}]
    (tmp_path / "body.json").write_bytes(orjson.dumps({"messages": talk, "temperature": 0.3}))
    pin = read(tmp_path, body_file="body.json")
    assert isinstance(pin, Pin)
    assert b"secret" not in pin.body
    assert b"You are the house." in pin.body


@pytest.mark.parametrize(
    ("name", "content", "field", "word"),
    [
        ("gone.md", None, "system_file", "cannot be read"),
        ("empty.md", b"  \n", "system_file", "no system text"),
        ("tools.json", b"{]", "tools_file", "not JSON"),
        ("tools.json", b"{}", "tools_file", "list of tools"),
        ("body.json", b"[]", "body_file", "not a request"),
        ("huge.md", b"x" * (LARGEST + 1), "system_file", "larger than"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, name: str, content: bytes | None, field: str, word: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    problem = read(tmp_path, **{field: name})
    assert isinstance(problem, PinProblem)
    assert word in str(problem)
    assert "house" in str(problem)


def test_check_names_it_and_is_otherwise_content(tmp_path: Path) -> None:
    settings(tmp_path, system_file="gone.md")
    told = CliRunner().invoke(main, ["check", str(tmp_path / "warmgate.yaml")])
    assert told.exit_code == 0
    assert "will not be read ahead" in told.output
    assert "gone.md" in told.output
