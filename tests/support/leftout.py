"""A pytest plugin that says at the end how many checks were left out, and for want of which tool.

    @pytest.mark.needs("prometheus")            # skipped, and counted under that name, where it is missing

Every other skip is counted too, under its own reason. With WARMGATE_NOTHING_LEFT_OUT=1 a run that left anything out fails.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.support.needs import available

STRICT = "WARMGATE_NOTHING_LEFT_OUT"

_COUNTS = pytest.StashKey[Counter[str]]()
_NEEDS = "needs "


def pytest_configure(config: pytest.Config) -> None:
    counts: Counter[str] = Counter()
    config.stash[_COUNTS] = counts
    config.pluginmanager.register(_Recorder(counts), "leftout-recorder")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for tool in marker.args:
            if not available(tool):
                pytest.skip(_NEEDS + tool)


class _Recorder:
    """Counts skips as they are reported: of tests, and of whole files that are skipped while they are collected."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):  # an expected failure has been run
            self._count(report.longrepr)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._count(report.longrepr)

    def _count(self, why: object) -> None:
        reason = why[2] if isinstance(why, tuple) else str(why)
        self._counts[str(reason).removeprefix("Skipped: ").removeprefix(_NEEDS)] += 1


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    left_out = session.config.stash[_COUNTS].total()
    if left_out and os.environ.get(STRICT) == "1" and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    counts = config.stash[_COUNTS]
    tools = ", ".join(f"{tool}: {count}" for tool, count in counts.most_common())
    line = f"left out: {counts.total()} checks" + (f" ({tools})" if tools else "")
    if counts and os.environ.get(STRICT) == "1":
        line += f"; this run fails, because {STRICT}=1"
    terminalreporter.write_line(line)
