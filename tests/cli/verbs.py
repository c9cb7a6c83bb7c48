"""Running `warmgate` as its users do: as a process of its own, in a directory with no configuration but the test's."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.process import REPOSITORY

PATIENCE = 30.0  # seconds


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str


async def warmgate(directory: Path, *arguments: str, stdin: bytes = b"", **environment: str) -> Ran:
    """Run in `directory`, which is also the home of the user. environment: on top of a clean one."""
    clean = {"PATH": os.environ["PATH"], "HOME": str(directory), "PYTHONPATH": str(REPOSITORY), "COLUMNS": "120"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", *arguments),
        cwd=directory,
        env=clean | environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(stdin), PATIENCE)
    except BaseException:
        process.kill()
        await process.wait()
        raise
    return Ran(process.returncode or 0, out.decode(), err.decode())
