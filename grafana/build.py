"""Writes the dashboards: `python -m grafana.build`; with --check it only says whether the files are what it would write."""

from __future__ import annotations

import sys
from pathlib import Path

from grafana.backends import BACKENDS
from grafana.draw import render
from grafana.overview import OVERVIEW

HERE = Path(__file__).resolve().parent / "dashboards"
FILES = {HERE / "overview.json": OVERVIEW, HERE / "backends.json": BACKENDS}


def main(arguments: list[str]) -> int:
    """Exit code: 1 if --check finds a file that is stale."""
    stale = [file for file, board in FILES.items() if not file.exists() or file.read_text() != render(board)]
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    for file in stale:
        if arguments:
            print(f"{file.name} is stale: run python -m grafana.build", file=sys.stderr)
        else:
            file.write_text(render(FILES[file]))
    return 1 if arguments and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
