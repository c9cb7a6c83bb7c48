from __future__ import annotations

import pytest

from gateway.config.masking import SourceText
from gateway.config.problems import InvalidConfig, Mark, Problem, did_you_mean, one_of, show_path
from tests.config.reports import report, wrong


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ((), ""),
        (("a", "b_c"), "a.b_c"),
        (("listen", 1, "address"), "listen[1].address"),
        (("models", "qwen3:30b"), 'models."qwen3:30b"'),
        (("a", "x\x1b[1m\ud800"), 'a."x?[1m?"'),
        (("headers", "x-api-key"), "headers.x-api-key"),
        (("headers", "Bearer abc"), "headers.***"),
    ],
)
def test_paths_are_shown_as_they_are_nested(path: tuple[str | int, ...], shown: str) -> None:
    assert show_path(path) == shown


@pytest.mark.parametrize(
    ("word", "found"), [("lisen", "listen"), ("LISTEN", "listen"), ("client-stall", "client_stall"), ("zebra", "")]
)
def test_a_close_word_is_offered(word: str, found: str) -> None:
    assert did_you_mean(word, ["listen", "limits", "client_stall"]) == (f"; did you mean {found}?" if found else "")


@pytest.mark.parametrize(("words", "shown"), [(["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")])
def test_words_are_listed(words: list[str], shown: str) -> None:
    assert one_of(words) == shown


def test_the_report_shows_place_key_message_line_and_caret() -> None:
    assert report("hosts: [a]\nlisen: ':1'\n") == (
        "warmgate.yaml:2:1: lisen: unknown key; did you mean listen?\n    lisen: ':1'\n    ^"
    )


def test_everything_that_is_wrong_is_told_at_once_in_the_order_of_the_text() -> None:
    text = """\
lisen: 1
identity: olama
identity: auto
admin: { listen: ":8484", token: "${NONE}" }
api_keys: ["a b"]
backends:
  one: { url: ftp://x, parallel: 0, timeouts: { idle: 5 } }
  two:
    kind: auto
    headers: { x: "ä" }
models:
  m: { targets: [ome/x, one], aliases: [n, a] }
  n: { aliases: a }
limits: { body: big, drain: 1 }
"""
    assert wrong(text) == [
        "1:1 lisen: unknown key; did you mean listen?",
        "2:11 identity: must be auto, llamacpp, llamaswap, lmstudio, ollama, omlx, openai or vllm; did you mean ollama?",
        "3:1 identity: this key is given twice, first in line 2",
        "4:18 admin.listen: clients are served on this address already; take another port",
        "4:34 admin.token: the variable NONE is not set; set it, or write ${NONE:-} if it may be empty",
        "5:12 api_keys[0]: an API key must be ASCII without spaces, and not empty",
        "7:15 backends.one.url: must begin with http:// or https://",
        "7:34 backends.one.parallel: must be from 1 to 1000000000",
        "7:55 backends.one.timeouts.idle: not a duration; write a number and a unit such as 250ms, 30s, 5m, 1h30m or 2d",
        "8:3 backends.two.url: is missing",
        "10:19 backends.two.headers.x: a header's value must be one line of ASCII",
        "12:18 models.m.targets[0]: there is no backend ome; did you mean one?",
        "12:25 models.m.targets[1]: not a target; write backend/model",
        "12:41 models.m.aliases[0]: another model has this name",
        "13:17 models.n.aliases: must be a list",
        "14:17 limits.body: not a size; write bytes, or a number and a unit such as 512kB, 64MiB or 20GiB",
        "14:29 limits.drain: not a duration; write a number and a unit such as 250ms, 30s, 5m, 1h30m or 2d",
    ]


def test_a_long_line_is_shown_around_the_caret_and_a_very_long_one_not_at_all() -> None:
    long, longer = (
        str(
            InvalidConfig(SourceText("x.yaml", ("a" * 200 + "b" + "c" * size,), parsed=True), [Problem(Mark(0, 200), (), "no")])
        )
        for size in (200, 2000)
    )
    line, caret = long.splitlines()[1:]
    assert len(line) <= 104
    assert line[caret.index("^")] == "b"
    assert longer == "x.yaml:1:201: no"


def test_nothing_in_a_report_can_steer_a_terminal() -> None:
    assert "\x1b" not in report('"\\e[1m": 1\n') + report("a: \x1b[1m\n")


def test_a_tab_in_a_line_does_not_move_the_caret() -> None:
    line, caret = report("hosts: ['a\tb', 'c d']\n").splitlines()[4:]
    assert line[caret.index("^") :] == "'c d']"
