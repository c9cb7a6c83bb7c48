"""The log of finished requests: rows, filters and bounds."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.state.log import LONGEST_NAME, Log
from gateway.values import SAVERS, Client, Record, Usage


def record(id: str, **fields: Any) -> Record:
    given = {
        "started": 100.0, "dialect": "openai_chat", "path": "/v1/chat/completions", "backend": "one", "model": "m",
        "label": "m", "kind": "main", "client": Client("127.0.0.1", "agent/1", "key"), "stream": False, "status": 200,
        "outcome": "ok",
    }  # fmt: skip
    return Record(**{"id": id, **given, **fields})


@pytest.fixture
def log() -> Log:
    log = Log(keep=3)
    log.add(record("a", started=1.0, model="alias", reason="evicted"), lambda: {"id": "a"})
    log.add(record("b", started=2.0, backend="two", kind="side"), None)
    log.add(record("c", started=3.0, outcome="cancelled"), None)
    return log


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]


def test_the_newest_first_and_no_more_than_are_kept(log: Log) -> None:
    assert ids(log.rows()) == ["c", "b", "a"]
    assert ids(log.rows(2)) == ["c", "b"]
    assert log.rows(0) == []
    log.add(record("d"), None)
    assert ids(log.rows()) == ["d", "c", "b"]
    assert log.row("a") is None
    log.resize(1)
    assert ids(log.rows()) == ["d"]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"model": "alias"}, ["a"]),
        ({"model": "m"}, ["c", "b", "a"]),
        ({"backend": "two"}, ["b"]),
        ({"reason": "evicted"}, ["a"]),
        ({"outcome": "ok"}, ["b", "a"]),
        ({"kind": "side"}, ["b"]),
        ({"since": 2.0}, ["c", "b"]),
        ({"since": 2.0, "outcome": "ok"}, ["b"]),
    ],
)
def test_filters(log: Log, filters: dict[str, Any], found: list[str]) -> None:
    assert ids(log.rows(**filters)) == found


def test_a_row_is_json_and_holds_no_key(log: Log) -> None:
    log.add(
        record("x", path="/" + "p" * 1000, model="\udcff", usage=Usage(10, 0, 2, source="usage"), overhead={"route": 0.1}), None
    )
    row = log.row("x")
    assert row is not None
    assert b"key" not in orjson.dumps(row)
    assert len(row["path"]) == LONGEST_NAME
    assert (row["prompt"], row["cached"], row["cached_source"], row["completion"]) == (10, 0, "usage", 2)
    assert (row["overhead"], row["retries"]) == ({"route": 0.1}, 0)
    assert set(row["saved"]) == set(SAVERS)


def test_what_is_not_reported_is_null(log: Log) -> None:
    row = log.row("c")
    assert row is not None
    assert (row["cached"], row["cached_source"], row["expected"]) == (None, "none", None)


def test_explanations_are_forgotten_and_rows_stay(log: Log) -> None:
    assert log.explain("a") == {"id": "a"}
    log.forget()
    assert log.explain("a") is None
    assert ids(log.rows()) == ["c", "b", "a"]
