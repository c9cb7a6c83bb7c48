"""What a long-running process does once, when everything is imported and set up."""

from __future__ import annotations

import ctypes
import gc
import sys

YOUNG = 10_000  # new objects between two looks for garbage; a request makes hundreds that die by themselves


def settle_in() -> None:
    """Let the collector leave alone what will never be garbage, and give back the memory that imports needed for a moment."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
    if sys.platform == "linux":
        try:
            ctypes.CDLL(None).malloc_trim(0)
        except (OSError, AttributeError):
            pass  # another C library; it keeps what it has
