"""Shared set-up of all tests."""

from __future__ import annotations

import signal

import pytest

pytest.register_assert_rewrite("tests.plumbing.rig", "tests.stable.stand", "tests.sdk.same")
"""Shared helpers that assert; told here, because one group of tests may import another's before its own conftest is read."""

pytest_plugins = ["tests.support.leftout", "tests.support.alone", "tests.support.engine"]

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell lets what it runs in the background ignore Ctrl-C, and so would the processes that tests start and then interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST = ("cli", "lifecycle", "plumbing", "explain", "ui", "stable", "contract", "engine", "doctor", "slots", "grafana")
"""Directories whose files take longest: they start processes and wait. They come first, so that the workers end together."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        directory = item.path.parent.name
        return LONGEST.index(directory) if directory in LONGEST else len(LONGEST)

    items.sort(key=rank)
