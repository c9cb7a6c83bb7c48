"""A pytest plugin that says at the end how many checks were left out, and for want of which tool.

    @pytest.mark.needs("prometheus")            # skipped, and counted under that name, where it is missing

Every other skip is counted too, under its own reason. With WARMGATE_NOTHING_LEFT_OUT=1 a run that left anything out fails.
Of several workers (pytest-xdist) none counts: their reports come to the process that started them, which does.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support.needs import available

STRICT = "WARMGATE_NOTHING_LEFT_OUT"

_NEEDS = "needs "


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder(), "leftout-recorder")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for tool in marker.args:
            if not available(tool):
                pytest.skip(_NEEDS + tool)


class _Recorder:
    """Counts skips as they are reported: of tests, and of whole files that are skipped while they are collected."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        """By node id: each worker collects, and so skips, the same files."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):  # an expected failure has been run
            self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        why = report.longrepr
        reason = why[2] if isinstance(why, tuple) else str(why)
        self._reasons[report.nodeid] = reason.removeprefix("Skipped: ").removeprefix(_NEEDS)

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # outside of pytest's own summary, so that this line is the last
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Iterator[None]:
        fails = bool(self._reasons) and os.environ.get(STRICT) == "1"
        if fails and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        result = yield
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(self._line() + (f"; this run fails, because {STRICT}=1" if fails else ""))
        return result

    def _line(self) -> str:
        counts = Counter(self._reasons.values())
        tools = ", ".join(f"{tool}: {count}" for tool, count in counts.most_common())
        return f"left out: {counts.total()} checks" + (f" ({tools})" if tools else "")
