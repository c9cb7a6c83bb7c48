"""The alerts: promtool finds them right, they ask for what exists, and what they tell people to run can be run."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import click
import promql_parser
import pytest
import yaml

from gateway.cli import main
from gateway.metrics import Metrics
from tests.grafana.boards import ALERTS, GRAFANA, names, own_names
from tests.grafana.invented import everything

NAMES = [alert["alert"] for alert in ALERTS]
FOREIGN = {"up"}
"""Prometheus's own."""


def promtool(*arguments: str, given: bytes | None = None) -> str:
    ran = subprocess.run(["promtool", *arguments], input=given, capture_output=True, cwd=GRAFANA, timeout=60, check=False)
    said = (ran.stdout + ran.stderr).decode()
    assert ran.returncode == 0, said
    return said


@pytest.mark.needs("promtool")
def test_promtool_finds_nothing_wrong() -> None:
    promtool("check", "config", "prometheus.yml")
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", "alerts.yml")


@pytest.mark.needs("promtool")
def test_alerts_fire_when_they_must_and_only_then() -> None:
    promtool("test", "rules", "alerts_test.yml")


@pytest.mark.needs("promtool")
def test_a_rule_that_never_fires_is_noticed(tmp_path: Path) -> None:
    """Of the tests above: what is broken fails them."""
    (tmp_path / "alerts.yml").write_text(
        (GRAFANA / "alerts.yml").read_text().replace("warmgate_backend_up == 0", "vector(0) == 1")
    )
    (tmp_path / "alerts_test.yml").write_text((GRAFANA / "alerts_test.yml").read_text())
    ran = subprocess.run(
        ["promtool", "test", "rules", "alerts_test.yml"], cwd=tmp_path, capture_output=True, timeout=60, check=False
    )
    assert ran.returncode != 0


@pytest.mark.needs("promtool")
def test_promtool_finds_nothing_wrong_with_the_exposition() -> None:
    metrics = Metrics()
    for event in everything(1e9):
        metrics.on_event(event)
    promtool("check", "metrics", given=metrics.render())


def test_each_alert_is_tested() -> None:
    told = (GRAFANA / "alerts_test.yml").read_text()
    assert [name for name in NAMES if f'alertname="{name}"' not in told] == []
    assert len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize("alert", ALERTS, ids=NAMES)
def test_alerts_ask_for_what_exists(alert: dict[str, Any]) -> None:
    promql_parser.parse(alert["expr"])
    assert names(alert["expr"]) <= set(own_names()) | FOREIGN


@pytest.mark.parametrize("alert", ALERTS, ids=NAMES)
def test_alerts_say_what_to_run(alert: dict[str, Any]) -> None:
    told = alert["annotations"]
    assert told["summary"].endswith(".")
    assert told["description"].strip().endswith((".", "?"))
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    program, verb, *arguments = shlex.split(told["runbook"])
    assert program == "warmgate"
    command = main.get_command(click.Context(main), verb)
    assert command is not None
    command.make_context(verb, arguments)  # raises for an option that it does not have


def test_what_alerts_look_at_is_there_from_the_beginning() -> None:
    """An alert cannot see the first increase of a counter that is not there before."""
    metrics = Metrics()
    shown = metrics.render().decode()
    for series in (
        'warmgate_prefill_seconds_lost_total{reason="evicted"} 0.0',
        "warmgate_rewrite_rejected_total 0.0",
        "warmgate_config_last_reload_successful 1.0",
        'warmgate_cache_reports_total{source="none"} 0.0',
    ):
        assert series in shown


def test_the_scrape_config_finds_the_gateway() -> None:
    config = yaml.safe_load((GRAFANA / "prometheus.yml").read_text())
    jobs = {job["job_name"]: job["static_configs"][0]["targets"] for job in config["scrape_configs"]}
    assert jobs == {"warmgate": ["127.0.0.1:8485"], "llamacpp": [], "vllm": []}
    assert config["rule_files"] == ["alerts.yml"]
