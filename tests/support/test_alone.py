from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SOURCE = """
import time
from pathlib import Path
import pytest

@pytest.fixture(autouse=True)
def noted(request):
    began = time.monotonic()
    yield
    with Path("times").open("a") as times:
        times.write(f"{request.node.name} {began} {time.monotonic()}\\n")

@pytest.mark.parametrize("n", range(6))
def test_ordinary(n):
    time.sleep(0.2)

ALONE
def test_measures():
    time.sleep(0.2)

@pytest.mark.parametrize("n", range(6))
def test_another(n):
    time.sleep(0.2)
"""


def overlaps(directory: Path, mark: str, *workers: str) -> list[str]:
    """Which tests of the run are under way at the same time as `test_measures`."""
    (directory / "pytest.ini").write_text("[pytest]\nmarkers = alone\n")
    for name in ("test_one.py", "test_two.py"):
        (directory / name).write_text(SOURCE.replace("ALONE", mark))
    plugins = ["-p", "tests.support.alone", "-p", "no:cacheprovider", "-p", "no:asyncio", *workers]
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", *plugins, "--rootdir", ".", "-c", "pytest.ini", "."]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    run = subprocess.run(
        command, cwd=directory, env=clean | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=50
    )
    assert run.returncode == 0, run.stdout + run.stderr
    lines = [line.split() for line in (directory / "times").read_text().splitlines()]
    assert len(lines) == 26
    times = [(name, float(began), float(ended)) for name, began, ended in lines]
    measured = [(began, ended) for name, began, ended in times if name == "test_measures"]
    return [name for name, began, ended in times for start, end in measured if began < end and start < ended and began != start]


@pytest.mark.parametrize("workers", [(), ("-n", "3", "--dist", "loadfile")], ids=["one process", "workers"])
def test_nothing_else_runs_meanwhile(tmp_path: Path, workers: tuple[str, ...]) -> None:
    assert overlaps(tmp_path, "@pytest.mark.alone", *workers) == []


def test_others_run_at_the_same_time(tmp_path: Path) -> None:
    assert overlaps(tmp_path, "", "-n", "2", "--dist", "loadfile") != []
