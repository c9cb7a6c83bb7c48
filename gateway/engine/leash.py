"""Runs a Python module that ends when its parent does: `python -m gateway.engine.leash PARENT_PID MODULE [ARGUMENT...]`.

A parent that is killed with SIGKILL cannot stop its children, so the child looks after that itself: a process whose parent
died is given to another one, and its parent's number changes. Works on Linux and macOS; looks twice a second.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time

_EVERY = 0.5  # seconds between looks
_GRACE = 3.0  # seconds for an orderly end


def tie_to(parent: int) -> None:
    """End this process (SIGTERM, then at once) as soon as its parent is no longer the process with that number."""
    # The thread is born with every signal blocked: SIGTERM and SIGINT belong to the module that runs on the main thread.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        threading.Thread(target=_watch, args=(parent,), name="leash", daemon=True).start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_EVERY)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE)
    os._exit(1)


def main() -> None:
    if len(sys.argv) < 3 or not sys.argv[1].isdigit():
        raise SystemExit("usage: python -m gateway.engine.leash PARENT_PID MODULE [ARGUMENT...]")
    parent, module = int(sys.argv[1]), sys.argv[2]
    sys.argv = sys.argv[2:]
    tie_to(parent)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
