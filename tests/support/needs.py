"""Is a tool on this machine? Tools are programs (`prometheus`) or Python modules (`module:xllamacpp`)."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

_MODULE = "module:"


def available(tool: str) -> bool:
    if tool.startswith(_MODULE):
        return find_spec(tool.removeprefix(_MODULE)) is not None
    return shutil.which(tool) is not None
