"""The documentation cannot lie: its examples are run, and what exists is mentioned."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from gateway import config as configuration
from gateway.canonical.ledger import Ledger
from gateway.canonical.result import Result
from gateway.canonical.rules import ORDER
from gateway.cli import VERBS
from gateway.server.dry_run import DryRun, request
from gateway.values import Client

ROOT = Path(__file__).resolve().parents[1]
CANONICAL = (ROOT / "docs" / "canonical.md").read_text()
DOCUMENTS = "\n".join(file.read_text() for file in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
EXAMPLE = (ROOT / "config.example.yaml").read_text()

BLOCK = re.compile(r"^```(text|json|yaml)(?: (before|after|note|never))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{2,3} (.*)\n")
USER = "Hello"


def sections(document: str) -> dict[str, str]:
    """Heading of level 2 or 3 -> the text below it, up to the next one."""
    found: dict[str, str] = {}
    heading, fenced = "", False
    for line in document.splitlines(keepends=True):
        fenced ^= line.startswith("```")
        if not fenced and (match := HEADING.match(line)):
            heading = match[1]
        found[heading] = found.get(heading, "") + line
    return found


SECTIONS = sections(CANONICAL)
RULES = {heading.strip("`"): text for heading, text in SECTIONS.items() if heading.startswith("`")}


class Example:
    """What a reader sees: requests one after another, and what becomes of the last."""

    def __init__(self, configuration_text: str) -> None:
        self.configuration = configuration_text
        self.before: list[tuple[str, str]] = []  # (text or json, what it says)
        self.after: str | None = None
        self.note = ""

    def play(self) -> Result:
        ledger, config = Ledger(), configuration.loads(self.configuration, "docs", {})
        run = DryRun(config.canonical, Client("127.0.0.1", "reader"), ledger, b"")
        for kind, text in self.before:
            asked = request(*body(kind, text))
            result = run.play(asked, 1_000_000.0)
            ledger.apply(result.remember, 1_000_000.0)
        return result


def body(kind: str, text: str) -> tuple[bytes, dict[str, Any]]:
    """A request with this system text, or with these tools."""
    whole: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": USER}]}
    if kind == "json":
        whole["tools"] = json.loads(text)
    else:
        whole["messages"].insert(0, {"role": "system", "content": text})
    return orjson.dumps(whole), whole


def examples(text: str) -> list[Example]:
    """The examples of a section. One that begins after another's end is another one; a yaml block is for all that follow."""
    found: list[Example] = []
    config = ""
    for kind, role, content in BLOCK.findall(text):
        content = content.removesuffix("\n")
        if kind == "yaml":
            config = content
        elif role == "before":
            if not found or found[-1].after is not None:
                found.append(Example(config))
            found[-1].before.append((kind, content))
        elif role == "after":
            found[-1].after = content
        elif role == "note":
            found[-1].note = content + "\n\n"
    return found


ALL = [(heading, number, one) for heading, text in SECTIONS.items() for number, one in enumerate(examples(text))]


@pytest.mark.parametrize(("heading", "number", "example"), ALL, ids=[f"{heading} {number}" for heading, number, _ in ALL])
def test_an_example_is_what_happens(heading: str, number: int, example: Example) -> None:
    result = example.play()
    assert result.reason == ""
    whole = orjson.loads(result.body)
    kind = example.before[-1][0]
    if kind == "json":
        assert json.dumps(whole["tools"]) == json.dumps(json.loads(example.after or ""))
    else:
        assert whole["messages"][0]["content"] == example.after
    assert whole["messages"][-1]["content"] == example.note + USER


@pytest.mark.parametrize("name", [*ORDER, "custom"])
def test_every_rule_has_an_example_that_needs_it(name: str) -> None:
    shown = examples(RULES[name])
    assert shown, "no example"
    for example in shown:
        rules = {edit.rule for edit in example.play().edits}
        own = {rule.name for rule in configuration.loads(example.configuration, "docs", {}).canonical.custom}
        assert rules >= (own if name == "custom" else {name})


def test_the_rules_are_in_their_order_and_none_is_made_up() -> None:
    assert list(RULES) == [*ORDER, "custom"]
    default = configuration.loads("", "docs", {}).canonical
    assert ORDER[-2:] == default.observe, "the document says: all but the last three, of which one is `custom`"
    assert ORDER[:-2] == default.rules


def test_what_is_never_touched_is_not() -> None:
    never = [content for kind, role, content in BLOCK.findall(CANONICAL) if role == "never"]
    assert len(never) >= 2
    for text in never:
        example = Example("canonical: { rules: [" + ", ".join(ORDER) + "] }")
        example.before = [("text", text)]
        result = example.play()
        assert result.edits == ()
        assert result.body == body("text", text)[0]


def test_no_block_is_left_out() -> None:
    """A misspelt mark would leave an example untested."""
    marks = re.findall(r"^```(.+)$", CANONICAL, re.MULTILINE)
    allowed = {"text before", "text after", "text note", "text never", "json before", "json after", "yaml"}
    assert set(marks) <= allowed
    assert sum(example.after is not None for _, _, example in ALL) == len(ALL) == sum(mark.endswith("after") for mark in marks)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_documented(verb: str) -> None:
    assert f"warmgate {verb}" in DOCUMENTS or f"python -m gateway {verb}" in DOCUMENTS


def test_every_header_is_documented() -> None:
    source = "\n".join(file.read_text() for file in (ROOT / "gateway" / "server").rglob("*.py"))
    names = set(re.findall(r"\"(X-Warmgate-[A-Za-z-]+|X-Request-Id|Server-Timing)\"", source))
    assert {"X-Warmgate-Edits", "X-Warmgate-Mode", "X-Warmgate-Route"} <= names
    assert [name for name in sorted(names) if f"`{name}" not in DOCUMENTS] == []


def test_every_admin_path_is_documented() -> None:
    source = "\n".join(file.read_text() for file in sorted((ROOT / "gateway" / "server").glob("admin*.py")))
    paths = [re.sub(r":[^}]+", "", path) for path in re.findall(r"router\.add_(?:get|post)\(\"([^\"]+)\"", source)]
    assert {"/canonicalize", "/requests/{id}", "/events"} <= set(paths)
    assert [path for path in paths if f"{path}`" not in DOCUMENTS] == []


def test_every_configuration_key_is_shown_in_the_example() -> None:
    shown = set(_shown(yaml.safe_load(EXAMPLE), configuration.schema()))
    comments = "\n".join(line.partition("#")[2] for line in EXAMPLE.splitlines())
    known = {(name, key) for name, part in _parts().items() for key in part}
    assert len(known) > 30
    missing = [(name, key) for name, key in sorted(known - shown) if not re.search(rf"\b{key}:", comments)]
    assert missing == []


def _parts() -> dict[str, list[str]]:
    """Mapping of the configuration -> its keys, as the JSON schema names them."""
    schema = configuration.schema()
    named = {name: list(part.get("properties", ())) for name, part in schema["$defs"].items()}
    return {"": list(schema["properties"])} | {name: keys for name, keys in named.items() if keys}


def _shown(value: Any, part: dict[str, Any], name: str = "") -> Iterator[tuple[str, str]]:
    """(mapping, key) of all that a parsed example spells out."""
    defs = configuration.schema()["$defs"]
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        part = defs[name]
    for choice in part.get("anyOf", ()):
        yield from _shown(value, choice, name)
    if isinstance(value, list):
        for item in value:
            yield from _shown(item, part.get("items", {}))
    if isinstance(value, dict):
        free = next(iter(part.get("patternProperties", {}).values()), {})
        for key, inner in value.items():
            if key in part.get("properties", {}):
                yield name, key
            yield from _shown(inner, part.get("properties", {}).get(key, free))
