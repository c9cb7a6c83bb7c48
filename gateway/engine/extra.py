"""Finding out, without importing anything heavy, whether the extra `demo` is installed."""

from __future__ import annotations

from importlib.util import find_spec

from gateway.errors import WarmgateError

INSTALL = "pip install 'warmgate[demo]'"


class ExtraMissing(WarmgateError):
    """A package of the extra `demo` is not installed."""


def require(*modules: str) -> None:
    """Raise ExtraMissing, which says what to install, unless every one of the top-level modules can be found."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise ExtraMissing(f"{', '.join(missing)} is not installed; the real server and its models need: {INSTALL}")
