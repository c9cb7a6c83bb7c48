"""What in a native Ollama request decides how its model is loaded and for how long it stays. Pure.

Source of facts: ollama `api/types.go` (Options.Runner, Duration), `server/sched.go` (needsReload) and `server/routes.go`. The
options of the runner are compared with those of the model that is loaded, and any difference is a reload: a client that says
`num_ctx` and one that does not take turns in reloading. `/v1` paths carry none of this.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import orjson

from gateway.wire.splice import find_values, set_fields

PATHS = frozenset({"/api/chat", "/api/generate", "/api/embed", "/api/embeddings"})
"""Where a request may say how its model is to be loaded."""

LOAD_OPTIONS = ("num_ctx", "num_batch", "num_gpu", "main_gpu", "use_mmap", "use_mlock", "num_thread", "draft_num_predict")
"""Members of `options` that belong to a loaded model. `use_mlock` did before 0.9 and is ignored since."""

_GO_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_GO_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")


def keep_alive(value: Any) -> float | None:
    """Seconds in a `keep_alive`: a number, or a duration as Go writes it; inf for anything negative. None where the server
    would refuse it, or keeps what the model has because nothing is said."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return math.inf if value < 0 else float(value) if math.isfinite(value) else None
    if not isinstance(value, str):
        return None
    negative, text = value.startswith("-"), value.lstrip("+-") if value[:1] in "+-" else value
    if text == "0":
        return 0.0
    parts = _GO_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return math.inf if negative else sum(float(number) * _GO_UNITS[unit] for number, unit in parts)


def is_empty(path: str, body: Mapping[str, Any]) -> bool:
    """Whether a request has nothing to answer: it only loads or unloads a model, and touches no KV cache."""
    if path == "/api/chat":
        return not body.get("messages")
    if path == "/api/generate":
        return not (body.get("prompt") or body.get("suffix") or body.get("images"))
    return path in PATHS and not (body.get("input") or body.get("prompt"))


def unloads(path: str, body: Mapping[str, Any]) -> bool:
    """Whether this is the command to unload the model (`ollama stop`): nothing to answer, and kept for no time."""
    return path in PATHS and is_empty(path, body) and keep_alive(body.get("keep_alive")) == 0


def load_options(body: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a request that belong to a loaded model; those that are null count as not said."""
    options = body.get("options")
    if not isinstance(options, Mapping):
        return {}
    return {name: options[name] for name in LOAD_OPTIONS if options.get(name) is not None}


def with_keep_alive(raw: bytes, seconds: float) -> bytes:
    """The body with this `keep_alive`; all other bytes as they are. Raises ValueError for a body that is no object."""
    return set_fields(raw, {"keep_alive": spell(seconds)})


def spell(seconds: float) -> bytes:
    """A `keep_alive` as JSON: whole seconds, rounded up; -1 for inf."""
    return b"-1" if math.isinf(seconds) else str(math.ceil(seconds)).encode()


def with_shift(raw: bytes, shift: bool) -> bytes:
    """The body with this `shift`, which belongs to a loaded model since 0.30.9. Raises ValueError as `with_keep_alive` does."""
    return set_fields(raw, {"shift": b"true" if shift else b"false"})


def with_options(raw: bytes, options: Mapping[str, Any]) -> bytes:
    """The body with these members of `options` set; what else is in there stays byte for byte.

    Raises ValueError for a body that is no object, or whose `options` is none.
    """
    if not options:
        return raw
    fields = {name: orjson.dumps(value) for name, value in options.items()}
    found = find_values(raw, "options")
    if not found or raw[found[-1][0] : found[-1][1]] == b"null":
        return set_fields(raw, {"options": set_fields(b"{}", fields)})
    start, end = found[-1]
    return set_fields(raw, {"options": set_fields(raw[start:end], fields)})
