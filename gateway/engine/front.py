"""The gateway as a child process in front of one server, on free loopback ports, for the demo and benchmarks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gateway.engine.calls import answers, fetch
from gateway.engine.child import Child

BACKEND = "local"

_ANY_PORTS = {"listen": "127.0.0.1:0", "admin": {"listen": "127.0.0.1:0"}}
_ADDRESS = re.compile(r"(?:listening|status) on http://127\.0\.0\.1:(\d+)[\"\n]")


class GatewayServer:
    """Starts in `start()` or `with`. directory: for its configuration and log files.

    settings: top-level keys of the configuration, merged over the smallest one (two addresses, one backend, nothing on disk).
    """

    def __init__(self, backend_url: str, directory: Path, settings: Mapping[str, Any] | None = None) -> None:
        self._child = Child("gateway", "gateway", directory)
        self._config_file = directory / "warmgate.yaml"
        smallest = {"backends": {BACKEND: {"kind": "llamacpp", "url": backend_url}}, "state_dir": ""}
        self._settings = {**smallest, **(settings or {})}
        self.port = 0
        self.admin_port = 0

    @property
    def url(self) -> str:
        """Of the data port, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self.admin_port}"

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.running

    @property
    def log(self) -> Path:
        return self._child.log

    def start(self, timeout: float = 30.0) -> Self:
        """Return when it is ready: it has found its backend. Raises ChildError with the end of its log."""
        self._config_file.write_text(json.dumps(_ANY_PORTS | self._settings, indent=2))  # JSON is YAML
        earlier = len(self._ports())
        self._child.start(["run", "--config", str(self._config_file)])
        self._child.wait_until(lambda: len(self._ports()) > earlier + 1, timeout)
        self.port, self.admin_port = self._ports()[-2:]
        self._child.wait_until(lambda: answers(f"{self.admin_url}/readyz"), timeout)
        return self

    def stop(self) -> int | None:
        """SIGTERM, and SIGKILL when that takes too long. Returns as Child.stop."""
        return self._child.stop()

    def metrics(self) -> str:
        """The admin port's /metrics."""
        return fetch(f"{self.admin_url}/metrics", timeout=10).decode()

    def _ports(self) -> list[int]:
        """What the log names, in order: for each start the data port and then the admin port."""
        return [int(port) for port in _ADDRESS.findall(self.log.read_text())] if self.log.exists() else []

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
