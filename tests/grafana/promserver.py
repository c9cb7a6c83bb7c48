"""A Prometheus server of the machine's own, on loopback, with the scrape config that is shipped."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

from tests.grafana.boards import GRAFANA
from tests.support.clients import fetch
from tests.support.ports import free_port

READY = 30.0  # seconds


@dataclass(frozen=True, slots=True)
class Prometheus:
    url: str

    async def get(self, path: str, **parameters: Any) -> Any:
        response = await fetch(f"{self.url}/api/v1/{path}?{urlencode(parameters)}")
        answer = json.loads(response.body)
        assert answer["status"] == "success", answer
        return answer["data"]

    async def series(self, expression: str, start: float, end: float) -> list[dict[str, Any]]:
        """Of each second."""
        data = await self.get("query_range", query=expression, start=start, end=end, step=1)
        return list(data["result"])

    async def scraped(self, jobs: int) -> None:
        """Wait until so many targets have been scraped without an error."""
        while True:
            targets = (await self.get("targets"))["activeTargets"]
            if sum(target["health"] == "up" for target in targets) >= jobs:
                return
            await asyncio.sleep(0.2)


def configuration(directory: Path, targets: Mapping[str, list[str]]) -> Path:
    """What is shipped, but for its addresses, for the interval, and for the rules, whose path is absolute here."""
    config = yaml.safe_load((GRAFANA / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(GRAFANA / name) for name in config["rule_files"]]
    for job in config["scrape_configs"]:
        job["static_configs"] = [{"targets": targets.get(job["job_name"], [])}]
    file = directory / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    return file


@asynccontextmanager
async def prometheus(directory: Path, targets: Mapping[str, list[str]]) -> AsyncIterator[Prometheus]:
    """targets: addresses by the name of the job."""
    address = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        f"--config.file={configuration(directory, targets)}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address={address}",
    ]
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        async with asyncio.timeout(READY):
            await _answers(f"http://{address}/-/ready", process, directory / "prometheus.log")
        yield Prometheus(f"http://{address}")
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, 10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    while True:
        assert process.poll() is None, log.read_text()
        try:
            if (await fetch(url)).status == 200:
                return
        except OSError:
            pass
        await asyncio.sleep(0.1)
