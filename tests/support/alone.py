"""A pytest plugin for tests that need the machine to themselves, because they measure time or memory.

    @pytest.mark.alone

When several workers (pytest-xdist) share a run, such a test begins once the tests of all other workers have ended, and they go
on when it has. Its module's fixtures may stand idle elsewhere; no other test runs.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

_GATE = pytest.StashKey["Gate"]()


class Gate:
    """Many readers or one writer, among processes. Who waits to be alone holds the turnstile, so that nobody new overtakes."""

    def __init__(self, path: Path) -> None:
        """path: of two files that all processes of the run share."""
        self._turnstile = path.with_suffix(".turnstile").open("w")
        self._room = path.with_suffix(".room").open("w")

    @contextmanager
    def passed(self, *, alone: bool) -> Iterator[None]:
        with _locked(self._turnstile, fcntl.LOCK_EX):
            fcntl.flock(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        try:
            yield
        finally:
            fcntl.flock(self._room, fcntl.LOCK_UN)

    def close(self) -> None:
        self._turnstile.close()
        self._room.close()


@contextmanager
def _locked(file: IO[str], how: int) -> Iterator[None]:
    fcntl.flock(file, how)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        return  # one process: each test is alone
    gate = Gate(Path(config.option.basetemp).with_name("alone"))  # beside the temporary directories of the workers
    config.stash[_GATE] = gate
    config.add_cleanup(gate.close)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outside of the time limit: waiting is not the test's own time
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    gate = item.config.stash.get(_GATE, None)
    if gate is None:
        return (yield)
    with gate.passed(alone=item.get_closest_marker("alone") is not None):
        return (yield)
