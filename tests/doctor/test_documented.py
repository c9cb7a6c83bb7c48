"""docs/doctor.md names every finding, with its severity, what it is, why it matters and what to do, and no other."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from gateway.doctor.base import Check
from gateway.doctor.checks import GROUPS

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "doctor.md").read_text()


class Places(defaultdict[str, str]):
    """`{model}` is shown as MODEL."""

    def __missing__(self, key: str) -> str:
        return key.upper()


def line(check: Check[object]) -> str:
    cells = (f"`{check.name}`", check.severity, check.finds, check.why, check.fix.format_map(Places(str)))
    return f"| {' | '.join(cells)} |"


def test_each_heading_has_its_rows() -> None:
    sections = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL))
    for heading, checks in GROUPS.items():
        rows = [row for row in sections[heading].splitlines() if row.startswith("| `")]
        assert rows == [line(check) for check in checks]


def test_names_are_used_once() -> None:
    names = re.findall(r"^\| `([a-z-]+)`", DOCUMENT, re.MULTILINE)
    assert len(names) == len(set(names)) == sum(map(len, GROUPS.values()))
