"""docs/explain.md cannot lie: it has each reason, and each of its examples comes to the reason above it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from gateway.cli import explain
from gateway.prefix.explain import Facts, judge
from gateway.values import REASONS

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "explain.md").read_text()
BLOCK = re.compile(r"^```(json|yaml) (before|after|facts)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PARTS = {part.split("`")[1]: part for part in re.split(r"^### ", DOCUMENT, flags=re.MULTILINE)[1:]}
BODIES = [reason for reason, text in PARTS.items() if "```json" in text]


def blocks(reason: str) -> dict[str, str]:
    return {role: content for _, role, content in BLOCK.findall(PARTS[reason])}


def test_every_reason_is_there_and_none_is_made_up() -> None:
    assert sorted(PARTS) == sorted(REASONS)
    assert all("What to do:" in " ".join(text.split()) for text in PARTS.values())


def test_no_block_is_left_out() -> None:
    assert re.findall(r"^```(\S.*)$", DOCUMENT, re.MULTILINE) == [f"{kind} {role}" for kind, role, _ in BLOCK.findall(DOCUMENT)]
    for reason in PARTS:
        assert set(blocks(reason)) in ({"before", "after"}, {"facts"})


@pytest.mark.parametrize("reason", BODIES)
def test_two_bodies_come_to_the_reason(reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for role, content in blocks(reason).items():
        Path(f"{role}.json").write_text(content)
    ran = CliRunner().invoke(explain.command, ["before.json", "after.json", "--json"])
    assert ran.exit_code == 0, ran.output
    found: dict[str, Any] = json.loads(ran.stdout)
    assert found["reason"] == reason
    assert reason == "side_request" or found["lost"]["tokens"] > 0, "a side request has nothing to be compared with"


@pytest.mark.parametrize("reason", [reason for reason in PARTS if reason not in BODIES])
def test_what_was_observed_comes_to_the_reason(reason: str) -> None:
    given = yaml.safe_load(blocks(reason)["facts"])
    verdict = judge(Facts(**{"side": False, "difference": None, **given}))
    assert verdict.reason == reason
    assert (verdict.lost or 0) > 0
