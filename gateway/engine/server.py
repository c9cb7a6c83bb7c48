"""A llama.cpp server as a child process on a loopback port, for tests, the demo and benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gateway.engine.calls import answers, fetch_json
from gateway.engine.child import Child
from gateway.engine.launcher import LISTENING


class EngineServer:
    """Starts in `start()` or `with`, listens on a free port (or the one given), and keeps that port over `restart()`.

    directory: for its log files; flags: as for llama-server, for example `-np`, `2`. Everything blocks, every wait has a limit,
    and a failure to start raises ChildError with the end of the log.
    """

    def __init__(self, model: Path, directory: Path, *flags: str, port: int = 0) -> None:
        self._child = Child("engine", "gateway.engine.launcher", directory)
        self._model = model
        self._flags = flags
        self.port = port

    @property
    def url(self) -> str:
        """Without a slash at the end. The port is known once the server has been started."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.running

    @property
    def log(self) -> Path:
        return self._child.log

    def start(self, timeout: float = 60.0) -> Self:
        """Return when the model is loaded: `/health` answers 200."""
        said = len(self._said())
        self._child.start(["-m", str(self._model), "--port", str(self.port), *self._flags])
        self._child.wait_until(lambda: len(self._said()) > said, timeout)
        self.port = int(self._said()[-1].rpartition(":")[2])
        self._child.wait_until(lambda: answers(f"{self.url}/health"), timeout)  # 503 while it loads
        return self

    def stop(self) -> int | None:
        """SIGTERM, and SIGKILL when that takes more than ten seconds. Harmless when it does not run. Returns as Child.stop."""
        return self._child.stop()

    def kill(self) -> None:
        """SIGKILL: what a crash looks like to the gateway."""
        self._child.kill()

    def restart(self, timeout: float = 60.0) -> None:
        """A new process on the same port, with empty caches."""
        self.stop()
        self.start(timeout)

    def get(self, path: str, *, timeout: float = 60.0) -> Any:
        """Parsed JSON. Raises urllib.error.HTTPError for 4xx and 5xx."""
        return fetch_json(self.url + path, timeout=timeout)

    def post(self, path: str, body: Mapping[str, Any], *, timeout: float = 60.0) -> Any:
        """Parsed JSON. Raises urllib.error.HTTPError for 4xx and 5xx."""
        return fetch_json(self.url + path, body, timeout=timeout)

    def _said(self) -> list[str]:
        """The launcher's lines that name the address, one for each start."""
        lines = self._child.out.read_text().splitlines(keepends=True) if self._child.out.exists() else []
        return [line.strip() for line in lines if line.startswith(LISTENING) and line.endswith("\n")]

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
