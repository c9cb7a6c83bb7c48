"""`warmgate canon`: as a process where the terminal, files and exit codes count, else by its functions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from gateway.cli import canon
from tests.cli.verbs import warmgate

SYSTEM = "You are Pelle.\n\nCurrent time: {time}\nWorking directory: /home/mira/lab\nNever push to the main branch."


def chat(*users: str, time: str = "2026-10-02 09:15:33", **more: Any) -> dict[str, Any]:
    """A conversation of so many turns."""
    talk: list[dict[str, str]] = [{"role": "user", "content": users[0]}]
    for user in users[1:]:
        talk += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": user}]
    return {"model": "m", "messages": [{"role": "system", "content": SYSTEM.format(time=time)}, *talk], **more}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("WARMGATE_CONFIG", "XDG_CONFIG_HOME", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def save(name: str, body: Any) -> str:
    Path(name).write_bytes(body if isinstance(body, bytes) else orjson.dumps(body))
    return name


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(canon.command, arguments, input=stdin)


def documents(*arguments: str) -> list[Any]:
    ran = run(*arguments, "--json")
    assert ran.exit_code == 0, ran.output
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_edits_are_shown_with_their_lines_and_the_note_with_its_place(here: Path) -> None:
    ran = run(save("a.json", chat("Where am I?")))
    assert ran.exit_code == 0
    assert ran.stdout.splitlines() == [
        "a.json for /v1/chat/completions (guessed; --path says otherwise)",
        "",
        "clock  system[0] at character 30",
        "- Current time: 2026-10-02 09:15:33",
        "+ Current time: [see context]",
        "",
        "place  system[0] at character 69",
        "- Working directory: /home/mira/lab",
        "+ Working directory: [working directory, see context]",
        "",
        "note  at the start of message[0], the newest of the user's",
        "+ <context>",
        "+ Current time: 2026-10-02 09:15:33",
        "+ Working directory: /home/mira/lab",
        "+ </context>",
        "",
        "Changed: clock 1, place 1, note 1.",
    ]


def test_json_has_the_edits_the_note_and_the_body_that_would_go_out(here: Path) -> None:
    raw = b'{"temperature": 1.10, "seed": 123456789012345678901234567890,\n ' + orjson.dumps(chat("Hello"))[1:]
    ran = run(save("a.json", raw), "--json")
    assert '"temperature": 1.10' in ran.stdout, "numbers keep their spelling"
    assert "123456789012345678901234567890" in ran.stdout
    (found,) = [json.loads(line) for line in ran.stdout.splitlines()]
    assert (found["path"], found["changed"], found["reason"], found["findings"]) == ("/v1/chat/completions", True, "", [])
    assert [(edit["rule"], edit["section"], edit["offset"]) for edit in found["edits"]] == [
        ("clock", "system[0]", 30),
        ("place", "system[0]", 69),
        ("note", "message[0]", 0),
    ]
    assert found["edits"][0]["before"] == "2026-10-02 09:15:33"
    assert found["edits"][0]["after"] == "[see context]"
    (note,) = found["notes"]
    system, user = found["body"]["messages"]
    assert (note["message"], user["content"]) == (0, note["text"] + "Hello")
    assert "2026" not in system["content"]
    assert "Never push to the main branch." in system["content"]


def test_files_are_played_in_turn_against_one_ledger(here: Path) -> None:
    names = save("1.json", chat("Hello")), save("2.json", chat("Hello", "And now?", time="2026-10-02 09:17:40"))
    first, second = documents(*names)
    assert second["body"]["messages"][1] == first["body"]["messages"][1], "the note sticks to its message"
    assert [note["message"] for note in second["notes"]] == [0, 2]
    assert "09:17:40" in second["notes"][1]["text"]
    (alone,) = documents(names[1])
    assert [note["message"] for note in alone["notes"]] == [2], "nothing is known of the first turn"


def test_it_reads_and_writes_no_ledger_on_disk(here: Path) -> None:
    save("warmgate.yaml", f"state_dir: {here}/state\n".encode())
    assert documents(save("a.json", chat("Hello")))[0]["changed"]
    assert not Path("state").exists()


def test_what_observed_rules_found_is_told_with_an_estimate(here: Path) -> None:
    def facts(*order: str) -> dict[str, Any]:
        system = "You are Pelle.\n\nColours of the house:\n" + "".join(f"- {item}\n" for item in order) + "\n" + "Stay. " * 100
        return {"model": "m", "messages": [{"role": "system", "content": system}, {"role": "user", "content": "Hello"}]}

    names = save("1.json", facts("red", "green", "blue")), save("2.json", facts("blue", "red", "green"))
    found = [one for one in documents(*names)[1]["findings"] if one["rule"] == "list_order"]
    assert [one["after"] for one in found] == ["- red\n- green\n- blue"]
    behind = len("- red\n- green\n- blue\n\n" + "Stay. " * 100 + "Hello")
    assert found[0]["tokens_estimate"] == behind // 4
    out = run(*names).stdout
    assert f"only observed, would save about {behind // 4} tokens (an estimate: characters / 4)" in out
    assert out.endswith("\nUnchanged.\n")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (chat("Hello"), "/v1/chat/completions"),
        ({"system": "Today is 2026-10-02.", "messages": [{"role": "user", "content": "Hi"}]}, "/v1/messages"),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]}]},
            "/v1/messages",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}, "/v1/chat/completions"),
        ({"instructions": "Today is 2026-10-02.", "input": "Hi"}, "/v1/responses"),
        ({"input": [{"role": "user", "content": "Hi"}]}, "/v1/responses"),
        ({"system": "Today is 2026-10-02.", "prompt": "Hi"}, "/api/generate"),
    ],
)
def test_the_path_is_guessed_from_the_shape(here: Path, body: dict[str, Any], path: str) -> None:
    (found,) = documents(save("a.json", body))
    assert found["path"] == path
    assert found["changed"] == ("2026" in str(body))


def test_the_path_can_be_named(here: Path) -> None:
    (found,) = documents(save("a.json", chat("Hello")), "--path", "/api/chat")
    assert found["path"] == "/api/chat"


@pytest.mark.parametrize(
    ("body", "path", "words"),
    [
        (b'{"a": 1,\n  "b" 2}', None, "a.json:2:7: not JSON: "),
        (b"", None, "a.json:1:1: not JSON: "),
        (b'{"prompt": "hi", "n": NaN}', None, "(the gateway passes such a body on as it is)"),
        (b"[1]", None, "a request body is a JSON object; this is an array"),
        (b"7", None, "a request body is a JSON object; this is a number"),
        ({"query": "x"}, None, "no `messages`, `input` or `prompt`"),
        ({"prompt": "hi"}, "/v1/completions", "Bodies for /v1/completions are passed on as they are."),
        ({"prompt": "hi"}, "/completion", "/infill"),
        ({"prompt": "hi"}, "/nowhere", "/nowhere is no path with a prompt; these are: /v1/chat/completions, "),
        ({"prompt": "hi", "raw": True}, "/api/generate", "There is no prompt in this body as /api/generate has it"),
        ({"messages": "hi"}, None, "There is no prompt in this body as /v1/chat/completions has it"),
    ],
)
def test_what_is_no_request_is_an_error_that_says_why(here: Path, body: Any, path: str | None, words: str) -> None:
    name = save("a.json", body)
    arguments = [name, *(["--path", path] if path else [])]
    ran = run(*arguments)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert words in ran.stderr
    ran = run(*arguments, "--json")
    assert ran.exit_code == 1
    assert words in json.loads(ran.stdout)["error"]


def test_a_file_that_cannot_be_read(here: Path) -> None:
    ran = run("missing.json")
    assert (ran.exit_code, ran.stderr) == (1, "error: missing.json cannot be read: No such file or directory.\n")


def test_no_file_and_unknown_modes_are_usage_errors(here: Path) -> None:
    assert run().exit_code == 2
    assert run(save("a.json", chat("Hello")), "--mode", "perhaps").exit_code == 2


def test_the_configuration_counts(here: Path) -> None:
    name = save("a.json", chat("Hello"))
    save("warmgate.yaml", b"canonical: { rules: [clock] }\n")
    (found,) = documents(name)
    assert [edit["rule"] for edit in found["edits"]] == ["clock", "note"]
    save("other.yaml", b"canonical: { mode: 'off' }\n")
    (found,) = documents(name, "--config", "other.yaml")
    assert (found["changed"], found["edits"], found["reason"]) == (False, [], "mode is off")
    (found,) = documents(name, "--config", "other.yaml", "--mode", "rewrite")
    assert found["changed"]
    save("never.yaml", b"canonical: { never: { models: [m] } }\n")
    assert documents(name, "--config", "never.yaml")[0]["reason"] == "left alone by canonical.never"
    assert "Unchanged: left alone by canonical.never." in run(name, "--config", "never.yaml").stdout
    save("broken.yaml", b"canonical: { mode: perhaps }\n")
    ran = run(name, "--config", "broken.yaml")
    assert ran.exit_code == 1
    assert "broken.yaml:1:20" in ran.stderr


def test_observing_reports_and_changes_nothing(here: Path) -> None:
    (found,) = documents(save("a.json", chat("Hello")), "--mode", "observe")
    assert (found["changed"], found["edits"], found["notes"]) == (False, [], [])
    assert [one["rule"] for one in found["findings"]] == ["clock", "place"]
    assert found["body"] == chat("Hello")


def test_text_of_a_prompt_cannot_steer_the_terminal(here: Path) -> None:
    body = chat("Hello")
    body["messages"][0]["content"] += "\nWorking directory: /tmp/\x1b[2Jx/y\nBranch: \u202emain"
    out = run(save("\x1b[31m.json", body)).stdout
    assert all(char.isprintable() or char == "\n" for char in out)


async def test_as_a_process_with_standard_input(tmp_path: Path) -> None:
    ran = await warmgate(tmp_path, "canon", "-", stdin=orjson.dumps(chat("Hello")))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("standard input for /v1/chat/completions")
    assert "\x1b" not in ran.out, "no colours where there is no terminal"
    ran = await warmgate(tmp_path, "canon", "-", stdin=b"[1")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: standard input:1:3: not JSON")
    assert (await warmgate(tmp_path, "canon")).code == 2


async def test_colours_mark_what_changed_unless_they_are_not_wanted(tmp_path: Path) -> None:
    raw = orjson.dumps(chat("Hello"))
    coloured = await warmgate(tmp_path, "canon", "-", stdin=raw, FORCE_COLOR="1", TERM="xterm")
    assert "\x1b[31m- Current time: \x1b[0m\x1b[1;31m2026-10-02 09:15:33\x1b[0m" in coloured.out
    plain = await warmgate(tmp_path, "canon", "-", stdin=raw, FORCE_COLOR="1", NO_COLOR="1", TERM="xterm")
    assert "\x1b[31m" not in plain.out
    assert "- Current time: 2026-10-02 09:15:33" in (await warmgate(tmp_path, "canon", "-", stdin=raw)).out
