"""`warmgate explain`: two saved bodies without a gateway, requests of a real App, and reports without a word of the user's."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gateway.cli import explain
from gateway.cli._report import agent
from tests.cli.verbs import warmgate
from tests.support.front import Front, front

HOSTILE = "evil\x1b[31m[red]x[/red]\u202e"
SYSTEM = "You are Pelle, a coding agent.\n" + "Be kind.\n" * 200 + "Current time: {}\nNever push to the main branch."
TURN = [{"role": "assistant", "content": "Hi."}, {"role": "user", "content": "Which day is it?"}]


def body(time: str = "2026-10-02 09:15:33", turns: int = 0, **more: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": SYSTEM.format(time)}, {"role": "user", "content": "Hello"}, *TURN * turns]
    return {"model": "tiny", "messages": messages, **more}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Compare bodies (values, or bytes as they are) with the verb, in a directory without a configuration."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    def compare(first: Any, second: Any, *options: str) -> Result:
        for name, value in (("a.json", first), ("b.json", second)):
            Path(name).write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
        return CliRunner().invoke(explain.command, ["a.json", "b.json", *options])

    return compare


def test_the_difference_is_shown_with_its_place_its_rule_and_what_to_do(run: Any) -> None:
    ran = run(body(), body("2026-10-02 09:16:07", 1))
    assert (ran.exit_code, ran.stderr) == (0, "")
    offset = SYSTEM.index("{}") + len("2026-10-02 09:1")
    assert "second body  system_changed" in ran.stdout
    assert f"first difference: place and time, at character {offset:,}\n" in ran.stdout
    assert "- Current time: 2026-10-02 09:15:33\n+ Current time: 2026-10-02 09:16:07\n" in ran.stdout
    assert "known to the rule: clock" in ran.stdout
    assert "what to do: Send it through Warmgate, whose canonical form takes this difference away." in ran.stdout


def test_a_conversation_that_goes_on_loses_nothing(run: Any) -> None:
    ran = run(body(), body(turns=1))
    assert "second body  nothing lost" in ran.stdout
    assert "The second goes on as the first ended" in ran.stdout
    found = json.loads(run(body(), body(turns=1), "--json").stdout)
    assert (found["reason"], found["difference"], found["detector"]) == (None, None, None)
    reused = {one["name"]: one["reused"] / one["tokens"] for one in found["sections"]}
    assert (reused["identity"], reused["newest message"]) == (1.0, 0.0)


def test_another_conversation_is_not_taken_for_the_same_that_goes_on(run: Any) -> None:
    other = body()
    other["messages"][1] = {"role": "user", "content": "Good evening"}
    found = json.loads(run(body(), other, "--json").stdout)
    assert found["reason"] is None
    assert found["sentence"].startswith("The second leaves the first at a place behind which they have nothing in common")


def test_where_the_rule_is_off_its_configuration_line_is_given(run: Any) -> None:
    Path("off.yaml").write_text("canonical: { mode: 'off' }")
    found = json.loads(run(body(), body("2026-10-02 09:16:07"), "--json", "--config", "off.yaml").stdout)
    assert found["fix"]["config"] == "canonical: { mode: rewrite }"
    ran = run(body(), body("2026-10-02 09:16:07"), "--config", "off.yaml")
    assert "\n    canonical: { mode: rewrite }\n" in ran.stdout


@pytest.mark.parametrize(
    ("first", "second", "reason", "section", "offset"),
    [
        ({"system": "You are Pelle."}, {"system": "You are Palle."}, "system_changed", "identity", len("You are P")),
        ({"tools": [{"name": "read"}]}, {"tools": [{"name": "rename"}]}, "tools_changed", "tools", len('[{"name":"re')),
        ({"thinking": {"type": "enabled"}}, {}, "params_changed", "newest message", 0),
    ],
)
def test_other_apis_and_places(run: Any, first: Any, second: Any, reason: str, section: str, offset: int) -> None:
    """Bodies for Anthropic's API."""
    base = {"model": "m", "max_tokens": 10, "system": "Be brief.", "messages": [{"role": "user", "content": "Hello"}]}
    found = json.loads(run(base | first, base | second, "--json", "--path", "/v1/messages").stdout)
    assert found["reason"] == reason
    if reason == "params_changed":
        assert found["parameters"] == ["thinking"]
    else:
        assert (found["difference"]["section"], found["difference"]["offset"]) == (section, offset)
        assert found["difference"]["exact"]


def test_an_earlier_message_that_changed(run: Any) -> None:
    later = body(turns=2)
    changed = body(turns=3)
    changed["messages"][2] = {"role": "assistant", "content": "Hi there."}
    found = json.loads(run(later, changed, "--json").stdout)
    assert (found["reason"], found["difference"]["section"]) == ("history_changed", "history")
    assert (found["difference"]["before"], found["difference"]["after"]) == ("Hi.", "Hi there.")
    assert found["difference"]["offset"] == 2


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (
            body(),
            {"model": "m", "system": "s", "messages": [{"role": "user", "content": "x"}]},
            "looks like a body for /v1/chat",
        ),
        (body(), {"model": "m", "messages": []}, "b.json has no messages"),
        ({"model": "m"}, body(), "a.json: This body has no `messages`"),
        ({"model": "m", "messages": "text"}, body(), "a.json: There is no prompt in this body"),
        (body(), b"[1]", "b.json: a request body is a JSON object; this is an array."),
        (body(), b"{\n  x", "b.json:2:3: not JSON"),
    ],
)
def test_what_cannot_be_compared_is_told(run: Any, first: Any, second: Any, words: str) -> None:
    ran = run(first, second)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert words in ran.stderr
    ran = run(first, second, "--json")
    assert ran.exit_code == 1
    assert words in json.loads(ran.stdout)["error"]


@pytest.mark.parametrize("arguments", [[], ["a", "b", "c"], ["--last", "x"], ["here.json"]])
def test_what_is_asked_must_be_clear(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.json").write_text("{}")
    assert CliRunner().invoke(explain.command, arguments).exit_code == 2


SECRETS = ("wisteria", "/home/mira", "thrush", "nuthatch", "redstart", "siskin", "linnet", "plover")


def private(time: str) -> dict[str, Any]:
    """A body with a secret in each place where a user's words can be."""
    call = {"id": "plover", "type": "function", "function": {"name": "siskin", "arguments": '{"path": "/home/mira"}'}}
    return {
        "model": "models/wisteria.gguf",
        "reasoning_effort": "thrush",
        "tools": [{"type": "function", "function": {"name": "siskin", "description": "Of the linnet."}}],
        "messages": [
            {"role": "system", "content": f"You know the nuthatch.\nCurrent time: {time}\nWorking directory: /home/mira"},
            {"role": "user", "content": "redstart?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "plover", "content": "linnet, redstart"},
        ],
    }


def test_a_report_on_bodies_has_structure_and_no_word_of_the_user(run: Any) -> None:
    first, second = private("2026-10-02 09:15:33"), private("2026-10-02 09:16:07")
    ran = run(first, second, "--report")
    assert ran.exit_code == 0
    report = ran.stdout
    assert [word for word in SECRETS if word in report] == []
    assert "09:1" not in report
    assert "- first difference: section `place and time`, character 52\n" in report
    assert "- what changes there: `clock`\n" in report
    assert "Anthropic" not in report
    assert "OpenAI's guide" in report
    rows = re.findall(
        r"^\| (tools \(1\)|system|message, \w+) \| (\d+) \| (\d+) \| `(\w+)` \| `(\w+)` \|$", report, re.MULTILINE
    )
    assert [row[0] for row in rows] == ["tools (1)", "system", "message, user", "message, assistant", "message, tool"]
    assert [row[3] == row[4] for row in rows] == [True, False, True, True, True]
    assert json.loads(run(first, second, "--report", "--json").stdout)["report"].startswith(
        "# The beginning of the prompt changes"
    )


def test_digests_of_one_report_say_nothing_in_another(run: Any) -> None:
    first, second = (set(re.findall(r"`([0-9a-f]{12})`", run(body(), body(), "--report").stdout)) for _ in range(2))
    assert len(first) == len(second) == 2
    assert first.isdisjoint(second)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("hermes-agent/1.2.3 (mira's laptop)", "hermes-agent/1.2.3"),
        ("OpenAI/Python 2.1", "OpenAI"),
        ("`rm -rf`", "unknown"),
        ("<script>", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_report_names_the_client_and_nothing_else_of_it(text: str, shown: str) -> None:
    assert agent(text) == shown


# a running gateway


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Front]:
    async with front(tmp_path) as running:
        yield running


EXPLANATION: Mapping[str, Any] = {
    "reason": "system_changed",
    "sentence": "The system text changed. " + HOSTILE,
    "compared_with": "one" + HOSTILE,
    "sections": [{"name": "identity", "tokens": 900, "reused": 400}, {"name": HOSTILE, "tokens": 100, "reused": None}],
    "difference": {
        "section": "memory", "offset": 2048, "exact": False, "within": 1024, "before": "wisteria " + HOSTILE, "after": "linnet",
    },
    "lost": {"tokens": 600, "seconds": 12.5},
    "detector": "own-nuthatch-rule",
    "fix": {"text": "Move the thrush.", "config": "canonical: { custom: [] }"},
}  # fmt: skip


async def explained(gateway: Front, id: str, arguments: list[str], explanation: Mapping[str, Any] = EXPLANATION) -> Any:
    """Ask about a request whose explanation is a given one."""
    await gateway.chat(id, agent="client/1.0 of Mira", model="wisteria")
    record = gateway.app.gateway.requests.get(id)
    assert record
    gateway.app.gateway.log.add(record, lambda: {"id": id, **explanation})
    return await warmgate(gateway.file.parent, "explain", *arguments, "--config", str(gateway.file))


async def test_a_request_is_explained_and_hostile_names_are_text(gateway: Front) -> None:
    ran = await explained(gateway, "a/b [red]", ["a/b [red]"])
    assert (ran.code, ran.err) == (0, "")
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out
    for words in (
        "a/b [red]  system_changed",
        "compared with oneevil?[31m[red]x[/red]?",
        "first difference: memory, at character 2,048 or up to 1,024 further on",
        "- wisteria evil?[31m[red]x[/red]?",
        "+ linnet",
        "not reported",
        "computed again: 600 tokens, 12.5 s",
        "what to do: Move the thrush.",
        "    canonical: { custom: [] }",
    ):
        assert words in ran.out


async def test_a_report_on_a_request_has_no_word_of_the_user(gateway: Front) -> None:
    ran = await explained(gateway, "linnet", ["--last", "--report"])
    assert ran.code == 0
    assert [word for word in (*SECRETS, "Mira", "evil", "127.0.0.1") if word in ran.out] == []
    for words in (
        "- client: `client/1.0`",
        "- prompt: 1,000 tokens, of which reused: 900",
        "- first difference: section `memory`, character 2,048, within 1,024 characters",
        "- what changes there: what a rule of the user looks for",
        "- computed again: 600 tokens, 12.5 s",
        "| identity | 900 | 400 |",
        "| other | 100 | – |",
    ):
        assert words in ran.out


async def test_an_unknown_id_and_an_empty_log_are_told(gateway: Front, tmp_path: Path) -> None:
    ran = await warmgate(tmp_path, "explain", "--last", "--config", str(gateway.file))
    assert (ran.code, ran.out, ran.err) == (1, "", "error: No request has finished yet.\n")
    ran = await warmgate(tmp_path, "explain", "nobody", "--json", "--config", str(gateway.file))
    assert ran.code == 1
    assert json.loads(ran.out)["error"].startswith("No request has this id.")


@pytest.mark.parametrize("store", ["hashes", "text"])
async def test_a_clock_that_breaks_the_prefix_is_named_end_to_end(tmp_path: Path, store: str) -> None:
    async with front(tmp_path, canonical={"mode": "off"}, explain={"store": store}) as gateway:
        await gateway.chat("one", system=SYSTEM.format("2026-10-02 09:15:33"))
        await gateway.chat("two", system=SYSTEM.format("2026-10-02 09:16:07"))
        ran = await warmgate(tmp_path, "explain", "--last", "--json", "--config", str(gateway.file))
        found = json.loads(ran.out)
        assert (found["id"], found["reason"], found["detector"]) == ("two", "system_changed", "clock")
        assert (found["compared_with"], found["fix"]["config"]) == ("one", "canonical: { mode: rewrite }")
        place, offset = found["difference"], SYSTEM.index("{}") + len("2026-10-02 09:1")
        assert place["section"] == "place and time"
        assert place["offset"] <= offset <= place["offset"] + place["within"]
        assert place["exact"] == (store == "text")
        shown = await warmgate(tmp_path, "explain", "two", "--config", str(gateway.file))
        assert (shown.code, shown.err) == (0, "")
        assert ("09:16:07" in shown.out) == (store == "text")
        report = await warmgate(tmp_path, "explain", "two", "--report", "--config", str(gateway.file))
        assert "- what changes there: `clock`" in report.out
        assert "09:1" not in report.out
