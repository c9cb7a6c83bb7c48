from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import find, places


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_first_that_is_named_or_exists_is_taken(here: Path) -> None:
    env = {"HOME": str(here), "WARMGATE_CONFIG": "named.yaml"}
    assert find(Path("given.yaml"), env) == Path("given.yaml")
    assert find(None, env) == Path("named.yaml")
    env["WARMGATE_CONFIG"] = ""
    assert find(None, env) is None
    user = here / ".config" / "warmgate" / "config.yaml"
    user.parent.mkdir(parents=True)
    user.touch()
    assert find(None, env) == user
    Path("warmgate.yaml").mkdir()
    assert find(None, env) == user
    Path("warmgate.yaml").rmdir()
    Path("warmgate.yaml").touch()
    assert find(None, env) == Path("warmgate.yaml")


@pytest.mark.parametrize(
    ("env", "place"),
    [
        ({"HOME": "/h"}, "/h/.config/warmgate/config.yaml"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}, "/x/warmgate/config.yaml"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": ""}, "/h/.config/warmgate/config.yaml"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "relative"}, "/h/.config/warmgate/config.yaml"),
    ],
)
def test_the_users_own_place(env: dict[str, str], place: str) -> None:
    assert places(env)[1] == Path(place)
