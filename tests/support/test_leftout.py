import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.leftout import STRICT
from tests.support.needs import available

ROOT = Path(__file__).parents[2]

MIXED = """
import pytest

@pytest.mark.needs("no-such-tool-1")
@pytest.mark.parametrize("n", [1, 2])
def test_two_programs(n): ...

@pytest.mark.needs("python3", "module:no_such_module_1")
def test_module(): ...

@pytest.mark.needs("module:json")
def test_runs(): ...

def test_own_reason():
    pytest.skip("the moon is full")

@pytest.mark.xfail(strict=True)
def test_expected_failure():
    assert False
"""


WAYS = {"one process": (), "two workers": ("-n", "2")}
each_way = pytest.mark.parametrize("workers", WAYS.values(), ids=WAYS)


def run_pytest(
    directory: Path, source: str, workers: Sequence[str] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    """A run of its own, with the plugin and without this project's settings."""
    (directory / "pytest.ini").write_text("[pytest]\nmarkers = needs\n")
    (directory / "test_sample.py").write_text(source)
    plugins = ["-p", "tests.support.leftout", "-p", "no:cacheprovider", "-p", "no:asyncio", *workers]
    place = ["--rootdir", str(directory), "-c", str(directory / "pytest.ini"), str(directory)]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *place]
    clean = {name: value for name, value in os.environ.items() if name not in (STRICT, "PYTEST_ADDOPTS")}
    return subprocess.run(command, cwd=ROOT, env=clean | environment, capture_output=True, text=True, timeout=50)


def left_out_line(run: subprocess.CompletedProcess[str]) -> str:
    found = re.findall(r"^left out: .*$", run.stdout, re.MULTILINE)
    assert len(found) == 1, run.stdout + run.stderr
    assert run.stdout.endswith(f"{found[0]}\n"), "it is the last line"
    return found[0]


@each_way
def test_counts_by_tool_and_by_reason(tmp_path: Path, workers: Sequence[str]) -> None:
    run = run_pytest(tmp_path, MIXED, workers)
    assert run.returncode == 0
    assert left_out_line(run) == "left out: 4 checks (no-such-tool-1: 2, module:no_such_module_1: 1, the moon is full: 1)"


@each_way
def test_strict_run_fails_when_something_was_left_out(tmp_path: Path, workers: Sequence[str]) -> None:
    run = run_pytest(tmp_path, MIXED, workers, **{STRICT: "1"})
    assert run.returncode == 1
    assert left_out_line(run).endswith("this run fails, because WARMGATE_NOTHING_LEFT_OUT=1")


@each_way
def test_strict_run_passes_when_nothing_was_left_out(tmp_path: Path, workers: Sequence[str]) -> None:
    run = run_pytest(tmp_path, "def test_runs(): ...", workers, **{STRICT: "1"})
    assert run.returncode == 0
    assert left_out_line(run) == "left out: 0 checks"


@each_way
def test_a_file_that_skips_itself_counts_once(tmp_path: Path, workers: Sequence[str]) -> None:
    source = "import pytest\npytest.importorskip('no_such_module_1')\ndef test_a(): ...\ndef test_b(): ..."
    run = run_pytest(tmp_path, source, workers)
    assert left_out_line(run).startswith("left out: 1 checks (")


@pytest.mark.parametrize(
    ("tool", "there"),
    [("python3", True), ("no-such-tool-1", False), ("module:json", True), ("module:no_such_module_1", False)],
)
def test_available(tool: str, there: bool) -> None:
    assert available(tool) is there
