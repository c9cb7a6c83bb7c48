"""Shared set-up of all tests."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.plumbing.rig", "tests.stable.stand", "tests.sdk.same")
"""Shared helpers that assert; told here, because one group of tests may import another's before its own conftest is read."""

pytest_plugins = ["tests.support.leftout", "tests.support.engine"]
