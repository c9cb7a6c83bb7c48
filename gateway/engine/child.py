"""A Python module as a child process that is never left behind: stopped in order, or ended by its leash when we are killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gateway.errors import WarmgateError

_POLL = 0.02  # seconds between looks at a child that starts
_TAIL = 2000  # characters of log in an error


class ChildError(WarmgateError):
    """A child process ended early or did not become ready in time; the text carries the end of its log."""


class Child:
    """`python -m MODULE ARGUMENTS`, with standard output in `NAME.out` and standard error in `NAME.log` of a directory.

    Both files are appended to, so they tell the whole story of a child that is started again.
    """

    def __init__(self, name: str, module: str, directory: Path) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        self.out = directory / f"{name}.out"
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ChildError(f"{self.name} has not been started")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, arguments: Sequence[str]) -> None:
        if self.running:
            raise ChildError(f"{self.name} is running already")
        command = [sys.executable, "-m", "gateway.engine.leash", str(os.getpid()), self._module, *arguments]
        with self.out.open("ab") as out, self.log.open("ab") as log:
            # A session of its own: Ctrl-C in the terminal is for the parent, which then stops its children in order.
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=log, start_new_session=True)

    def wait_until(self, ready: Callable[[], bool], timeout: float) -> None:
        """Return once `ready()` is true. Raises ChildError when the child ends first or `timeout` seconds pass.

        Whatever is raised, the child has ended.
        """
        deadline = time.monotonic() + timeout
        try:
            while not ready():
                if not self.running:
                    raise ChildError(f"{self.name} ended at once:\n{self.tail()}")
                if time.monotonic() > deadline:
                    raise ChildError(f"{self.name} was not ready after {timeout:g} s:\n{self.tail()}")
                time.sleep(_POLL)
        except BaseException:
            self.kill()
            raise

    def stop(self, timeout: float = 10.0) -> int | None:
        """SIGTERM, and SIGKILL after `timeout` seconds. The exit status (negative: the signal), or None if never started."""
        if self._process is None:
            return None
        self._process.terminate()
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.returncode

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-_TAIL:].strip() if self.log.exists() else ""
