import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.engine.child import Child, ChildError
from tests.support.engine import ModelFile, needs_engine

WriteModule = Callable[[str], Child]


def is_gone(pid: int) -> bool:
    """No such process, or dead and only not collected yet (in containers nobody may do that)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z"


def wait_until_gone(pid: int, limit: float) -> float:
    """Seconds until it was gone, at most `limit`."""
    began = time.monotonic()
    while not is_gone(pid) and time.monotonic() - began < limit:
        time.sleep(0.05)
    return time.monotonic() - began


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteModule:
    """Writes the module `sample_child`, which a child can run, and returns the child."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def write(source: str) -> Child:
        (tmp_path / "sample_child.py").write_text(textwrap.dedent(source))
        return Child("sample", "sample_child", tmp_path)

    return write


def test_arguments_output_and_log(module: WriteModule) -> None:
    child = module("import sys; print(sys.argv[1:], __name__); print('to the log', file=sys.stderr)")
    child.start(["a", "--b"])
    assert child.stop() is not None
    child.start(["c"])
    with pytest.raises(ChildError, match="ended at once"):
        child.wait_until(lambda: False, 10)
    assert child.out.read_text().endswith("['c'] __main__\n")
    assert child.tail().endswith("to the log")


def test_a_child_that_is_not_ready_in_time_is_ended(module: WriteModule) -> None:
    child = module("import time; time.sleep(60)")
    child.start([])
    with pytest.raises(ChildError, match=r"not ready after 0\.3 s"):
        child.wait_until(lambda: False, 0.3)
    assert not child.running


def test_a_child_that_ignores_the_polite_signal_is_killed(module: WriteModule) -> None:
    child = module(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    child.start([])
    child.wait_until(lambda: "deaf" in child.out.read_text(), 10)
    assert child.stop(timeout=0.3) == -signal.SIGKILL


def test_the_module_gets_its_signals_in_spite_of_the_leash(module: WriteModule) -> None:
    child = module("""
        import signal, sys, time
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        print("ready", flush=True)
        time.sleep(0.5)  # not waiting for it yet: only the leash's thread could take the signal
        sys.exit(40 + (signal.sigwait({signal.SIGTERM}) == signal.SIGTERM))
    """)
    child.start([])
    child.wait_until(lambda: "ready" in child.out.read_text(), 10)
    assert child.stop() == 41


PARENT = """
import sys, time
from pathlib import Path
from gateway.engine.child import Child
child = Child("orphan", sys.argv[1], Path(sys.argv[2]))
child.start(sys.argv[3:])
child.wait_until(lambda: child.out.read_text() != "", 20)
print(child.pid, child.out.read_text(), flush=True)
time.sleep(60)
"""


def kill_the_parent_of(module: str, directory: Path, *arguments: str) -> tuple[int, str]:
    """Starts a parent that starts the module, and kills the parent. The number of the orphan, and what it had printed."""
    command = [sys.executable, "-c", PARENT, module, str(directory), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, said = parent.stdout.readline().split(" ", 1)
        parent.send_signal(signal.SIGKILL)
    return int(pid), said.strip()


@needs_engine
def test_a_killed_parent_leaves_no_server_behind(model_file: ModelFile, tmp_path: Path) -> None:
    pid, said = kill_the_parent_of("gateway.engine.launcher", tmp_path, "-m", str(model_file()), "--port", "0", "-c", "1024")
    assert said.startswith("listening on http://127.0.0.1:")
    assert wait_until_gone(pid, limit=10) < 5


def test_an_orphan_that_ignores_the_polite_signal_is_ended_all_the_same(module: WriteModule, tmp_path: Path) -> None:
    module("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)")
    pid, _ = kill_the_parent_of("sample_child", tmp_path)
    assert wait_until_gone(pid, limit=15) < 10
