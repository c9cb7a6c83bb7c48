"""The files are what the program writes, and what Grafana needs: each panel is told, laid out, and asks what exists."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import promql_parser
import pytest

from grafana import build
from tests.grafana.boards import BOARDS, GRAFANA, Asked, filled, names, own_names, panels, queries

UNITS = {"s", "percentunit", "bytes", "none", "short", "reqps", "ops"}

SERVERS_OWN = {
    "llamacpp:" + name
    for name in (
        "prompt_tokens_total", "prompt_tokens_cached_total", "prompt_seconds_total", "tokens_predicted_total",
        "tokens_predicted_seconds_total", "requests_processing", "requests_deferred", "n_busy_slots_per_decode",
    )
} | {
    "vllm:" + name
    for name in (
        "prefix_cache_queries_total", "prefix_cache_hits_total", "prompt_tokens_total", "generation_tokens_total",
        "time_to_first_token_seconds_bucket", "inter_token_latency_seconds_bucket", "num_requests_running",
        "num_requests_waiting", "kv_cache_usage_perc",
    )
}  # fmt: skip
"""Metrics of the servers, by their own documentation. Those of llama.cpp are asked of a real one in test_live."""

EVERY = [asked for board in BOARDS for asked in queries(board)]
PANELS = [(board, panel) for board in BOARDS for _, panel in panels(board)]


def title(value: Any) -> str:
    return str(value) if isinstance(value, Asked) else value["title"] if isinstance(value, dict) else str(value)


def test_the_files_are_what_the_program_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    assert build.main(["--check"]) == 0
    copies = {tmp_path / file.name: board for file, board in build.FILES.items()}
    monkeypatch.setattr(build, "FILES", copies)
    assert build.main(["--check"]) == 1
    assert "overview.json is stale" in capsys.readouterr().err
    assert build.main([]) == 0
    assert build.main(["--check"]) == 0
    stale = tmp_path / "overview.json"
    stale.write_text(stale.read_text().replace("Held requests", "Held back"))
    assert build.main(["--check"]) == 1
    assert build.main(["--nonsense"]) == 2


def test_the_overview_has_its_rows() -> None:
    assert list(dict.fromkeys(row for row, _ in panels("overview"))) == [
        "Is it working?", "First token", "Cache", "Residency", "Warm-ups and snapshots", "Routing", "The gateway itself",
    ]  # fmt: skip
    kinds = {panel["type"] for _, panel in panels("overview")}
    assert kinds == {"stat", "timeseries", "heatmap", "state-timeline"}
    assert sum(panel["type"] == "heatmap" for _, panel in panels("overview")) == 1


@pytest.mark.parametrize(("board", "panel"), PANELS, ids=title)
def test_panels_tell_what_they_show(board: str, panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    for target in (panel, *panel["targets"]):
        assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0
    instant = panel["type"] == "stat"
    assert all(target["instant"] is instant and target["range"] is not instant for target in panel["targets"])


@pytest.mark.parametrize("asked", EVERY, ids=title)
def test_queries_parse_and_ask_for_what_exists(asked: Asked) -> None:
    known = own_names() if asked.board == "overview" else SERVERS_OWN
    found = names(filled(asked.expr))
    assert found
    assert found <= set(known)
    promql_parser.parse(filled(asked.expr))  # raises
    if asked.board == "overview":
        assert asked.expr.count('job=~"$job"') == asked.expr.count('instance=~"$instance"') == asked.expr.count("warmgate_")


@pytest.mark.parametrize("asked", EVERY, ids=title)
def test_ranges_follow_the_dashboard(asked: Asked) -> None:
    """Rates over time are as wide as the scrape interval needs, single figures as wide as what is shown; nothing is fixed."""
    ranges = set(re.findall(r"\[(.*?)\]", asked.expr))
    assert ranges <= ({"$__range"} if asked.panel["type"] == "stat" else {"$__rate_interval"})
    functions = len(re.findall(r"\b(?:rate|increase)\(", asked.expr))
    assert functions == len(re.findall(r"\[\$", asked.expr))
    counts = {name for name in names(filled(asked.expr)) if name.endswith(("_total", "_bucket", "_sum", "_count"))}
    assert not counts or functions


@pytest.mark.parametrize("asked", EVERY, ids=title)
def test_legends_name_labels_that_the_query_leaves(asked: Asked) -> None:
    for label in re.findall(r"{{(\w+)}}", asked.legend):
        grouped = re.findall(r"by \((.*?)\)", asked.expr)
        assert all(label in group.split(", ") for group in grouped)


@pytest.mark.parametrize("board", BOARDS)
def test_nothing_overlaps_or_leaves_the_grid(board: str) -> None:
    spots = [part["gridPos"] for part in BOARDS[board]["panels"]]
    assert all(spot["x"] >= 0 and spot["w"] > 0 and spot["x"] + spot["w"] <= 24 for spot in spots)
    for one, other in combinations(spots, 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart or below, (one, other)
    ids = [part["id"] for part in BOARDS[board]["panels"]]
    assert len(ids) == len(set(ids))


def test_grafana_takes_them_as_they_are() -> None:
    assert {board["uid"] for board in BOARDS.values()} == {"warmgate-overview", "warmgate-backends"}
    for board in BOARDS.values():
        assert "__inputs" not in board
        assert "__requires" not in board
        variables = board["templating"]["list"]
        assert [variable["name"] for variable in variables if variable["type"] == "datasource"] == ["datasource"]
        for variable in variables[1:]:
            assert variable["datasource"]["uid"] == "${datasource}"
            (asked,) = re.findall(r"^label_values\((.*), \w+\)$", variable["query"])
            promql_parser.parse(filled(asked))


def test_variables() -> None:
    found = {name: [variable["name"] for variable in board["templating"]["list"]] for name, board in BOARDS.items()}
    assert found["overview"] == ["datasource", "job", "instance", "backend", "model"]
    assert found["backends"] == ["datasource", "job", "instance", "model"]
    used = set(re.findall(r"\$(\w+)", " ".join(asked.expr for asked in EVERY)))
    assert used == {"job", "instance", "backend", "model", "__rate_interval", "__range"}


def test_inferred_values_are_drawn_apart() -> None:
    (panel,) = (panel for _, panel in panels("overview") if panel["title"] == "Prompt tokens reused by model")
    (override,) = panel["fieldConfig"]["overrides"]
    legends = [target["legendFormat"] for target in panel["targets"]]
    pattern = override["matcher"]["options"].strip("/")
    assert [bool(re.search(pattern, legend)) for legend in legends] == [False, True]
    assert override["properties"][0]["value"]["fill"] == "dash"


def test_provisioning_finds_the_dashboards() -> None:
    compose = (GRAFANA / "compose.yaml").read_text()
    provider = (GRAFANA / "provisioning" / "dashboards" / "warmgate.yaml").read_text()
    (path,) = re.findall(r"path: (.*)", provider)
    assert f"./dashboards:{path}:ro" in compose
