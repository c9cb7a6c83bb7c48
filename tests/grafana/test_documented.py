"""docs/metrics.md is what the metrics say of themselves, and every metric is looked at by a panel or an alert."""

from __future__ import annotations

from pathlib import Path

from gateway.metrics import Metrics
from gateway.metrics.document import document
from tests.grafana.boards import ALERTS, filled, names, own_names, queries

DOCS = Path(__file__).resolve().parents[2] / "docs"

BESIDE = {"warmgate_process_max_fds", "warmgate_process_virtual_memory_bytes"}
"""Come with those of the process, and say little."""


def test_the_page_is_not_stale() -> None:
    assert (DOCS / "metrics.md").read_text() == document(), "run python -m gateway.metrics > docs/metrics.md"


def test_every_metric_is_on_the_page() -> None:
    page = document()
    assert [name for name in {*own_names().values()} if f"`{name}`" not in page] == []


def test_every_metric_is_in_a_panel_or_an_alert() -> None:
    own = own_names()
    asked = {name for one in queries("overview") for name in names(filled(one.expr))}
    asked |= {name for alert in ALERTS for name in names(alert["expr"])}
    assert set(own.values()) - {own[name] for name in asked if name in own} - BESIDE == set()


def test_every_metric_has_words() -> None:
    for defined in Metrics().families.sections.values():
        assert defined
        assert all(one.text.endswith(".") for one in defined)


def test_the_rows_of_the_overview_are_shown() -> None:
    page = (DOCS / "dashboards.md").read_text()
    pictures = sorted(file.name for file in (DOCS / "pictures").glob("*.svg"))
    rows = list(dict.fromkeys(one.row for one in queries("overview")))
    assert len(pictures) == len(rows)
    assert all(f"pictures/{name}" in page for name in pictures)
    assert all(row in page for row in rows)


def test_the_alerts_are_shown() -> None:
    page = (DOCS / "dashboards.md").read_text()
    for alert in ALERTS:
        told = alert["annotations"]
        assert f"| `{alert['alert']}` | {told['description'].strip()} | `{told['runbook']}` |" in page
