"""Shared set-up of all tests."""

from __future__ import annotations

pytest_plugins = ["tests.support.leftout", "tests.support.engine"]
