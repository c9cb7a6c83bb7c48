"""The real gateway as a process of its own, with a configuration of the test's.

    async with GatewayProcess(tmp_path, {"backends": {"local": {"url": upstream.url}}}) as gateway:
        await fetch(f"{gateway.url}/v1/models")
        assert (await gateway.metrics()).value("warmgate_requests_total", outcome="ok") == 1

The process is ended at the end of the block in any case; if the block went well, it must then have exited with 0 and have
written no traceback.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.support.clients import fetch
from tests.support.ports import free_port

REPOSITORY = Path(__file__).resolve().parents[2]
GATEWAY = (sys.executable, "-m", "gateway", "run", "--config")


class Metrics(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    """Samples of one scrape: (name, frozenset of (label, value)) -> value."""

    @classmethod
    def parse(cls, text: str) -> Self:
        return cls(
            ((sample.name, frozenset(sample.labels.items())), sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        )

    def matching(self, name: str, **labels: str) -> dict[frozenset[tuple[str, str]], float]:
        """The series of this name that carry at least these labels."""
        return {key: value for (found, key), value in self.items() if found == name and labels.items() <= set(key)}

    def value(self, name: str, **labels: str) -> float:
        """The sum of `matching`; 0 where there is no such series, as counters that have not been touched are."""
        return sum(self.matching(name, **labels).values())


class GatewayProcess:
    """One gateway. `listen`, `admin`, `state_dir` and `log` are filled in where the given configuration leaves them out.

    command: what is run, with the path of the configuration as its last argument; check: the end of the block asserts
    `assert_clean`; ready: seconds that it may take until the admin port answers /healthz.
    """

    def __init__(
        self,
        directory: Path,
        config: Mapping[str, Any],
        *,
        command: Sequence[str] = GATEWAY,
        environment: Mapping[str, str] | None = None,
        check: bool = True,
        ready: float = 30.0,
    ):
        self.config: dict[str, Any] = {
            "listen": f"127.0.0.1:{free_port()}",
            "admin": {"listen": f"127.0.0.1:{free_port()}"},
            "state_dir": str(directory / "state"),
            "log": {"format": "json", "level": "debug"},
            **config,
        }
        self.config_file = directory / "config.yaml"
        self.log_file = directory / "gateway.log"
        self.url = f"http://{self.config['listen']}"
        self.admin = f"http://{self.config['admin']['listen']}"
        self._command = command
        self._environment = {**os.environ, **(environment or {})}
        self._check = check
        self._ready = ready
        self._process: asyncio.subprocess.Process

    # life

    async def __aenter__(self) -> Self:
        self.write_config()
        with self.log_file.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, str(self.config_file), stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=REPOSITORY, env=self._environment,
            )  # fmt: skip
        try:
            await self._wait_ready()
        except BaseException:
            await self.stop(grace=0)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        if error is None and self._check:
            self.assert_clean()

    def write_config(self, **changes: Any) -> None:
        """Writes the configuration, with top-level keys replaced: for a reload."""
        self.config |= changes
        self.config_file.write_text(yaml.safe_dump(self.config, sort_keys=False))

    def signal(self, number: int) -> None:
        if self._process.returncode is None:
            self._process.send_signal(number)

    async def wait(self, within: float) -> int:
        """Its exit code, once it has ended. Raises TimeoutError."""
        return await asyncio.wait_for(self._process.wait(), within)

    async def stop(self, grace: float = 10.0) -> int:
        """SIGTERM, and SIGKILL `grace` seconds later if that did not end it. Its exit code; negative: the signal."""
        self.signal(signal.SIGTERM)
        try:
            return await self.wait(grace)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            return await self._process.wait()

    def assert_clean(self) -> None:
        """It exited with 0 and wrote no traceback."""
        assert self._process.returncode == 0, f"exit code {self._process.returncode}\n{self.log}"
        assert "Traceback" not in self.log, self.log

    # looking at it

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    @property
    def resident_bytes(self) -> int:
        """Its resident memory. Linux only."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    async def metrics(self) -> Metrics:
        return Metrics.parse((await fetch(f"{self.admin}/metrics")).body.decode())

    async def _wait_ready(self) -> None:
        deadline = time.monotonic() + self._ready
        while time.monotonic() < deadline:
            if self._process.returncode is not None:
                raise AssertionError(f"the gateway ended with {self._process.returncode} at its start\n{self.log}")
            try:
                if (await fetch(f"{self.admin}/healthz", within=2.0)).status == 200:
                    return
            except OSError:
                pass
            await asyncio.sleep(0.05)
        raise AssertionError(f"no answer from {self.admin}/healthz within {self._ready} s\n{self.log}")
