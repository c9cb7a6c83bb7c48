from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.backends import KINDS
from gateway.routing.fleet import BackendView, Catalog, FleetView, NamedModel
from gateway.server import lists
from gateway.values import ModelInfo, Target


def backend(name: str, kind: str, *models: str) -> BackendView:
    """A backend that lists these models under all of its kind's lists, each row with a field that only it knows."""
    rows = {
        model: ModelInfo(model, rows={path: {lists.NAMES.get(path, ("id",))[0]: model, "of": name} for path in lists_of(kind)})
        for model in models
    }
    return BackendView(name, kind, KINDS[kind].serves, up=True, known=True, latest=KINDS[kind].latest, models=rows)


def lists_of(kind: str) -> list[str]:
    return [path for path in KINDS[kind].lists if path in lists.SHAPES]


def shown(path: str, *backends: BackendView, models: tuple[NamedModel, ...] = ()) -> list[dict[str, Any]]:
    found = orjson.loads(lists.merged(path, FleetView(backends), Catalog(models)))
    rows: list[dict[str, Any]] = found[lists.SHAPES[path][0]]
    return rows


def test_one_backend_without_names_of_ours_speaks_for_itself() -> None:
    one, two = backend("l", "llamacpp", "tiny"), backend("o", "ollama", "q:7b")
    named = Catalog((NamedModel("coder"),))
    assert not lists.must_merge("/v1/models", FleetView((one,)), Catalog())
    assert lists.must_merge("/v1/models", FleetView((one, two)), Catalog())
    assert lists.must_merge("/v1/models", FleetView((one,)), named)
    assert lists.must_merge("/v1/models", FleetView(), Catalog())
    assert not lists.must_merge("/v1/embeddings", FleetView((one, two)), named)


def test_rows_are_the_backends_own_and_the_first_that_has_a_name_wins() -> None:
    rows = shown("/v1/models", backend("a", "openai", "x", "y"), backend("b", "openai", "y", "z"))
    assert [(row["id"], row["of"]) for row in rows] == [("x", "a"), ("y", "a"), ("z", "b")]


def test_a_list_names_only_what_its_dialect_reaches() -> None:
    both = backend("l", "llamacpp", "tiny"), backend("o", "ollama", "q:7b")
    assert [row["name"] for row in shown("/api/tags", *both)] == ["q:7b"]
    assert [row["id"] for row in shown("/v1/models", *both)] == ["tiny", "q:7b"]


def test_names_of_the_configuration_come_first_with_the_row_of_their_target() -> None:
    models = (
        NamedModel("coder", ("gpt-4o", "claude-*"), (Target("l", "tiny"), Target("o", "q:7b"))),
        NamedModel("later", (), (Target("l", "not-there-yet"),)),
        NamedModel("nowhere", (), (Target("o", "q:7b"),)),
    )
    l, o = backend("l", "llamacpp", "tiny"), backend("o", "ollama", "q:7b")  # noqa: E741
    rows = shown("/v1/models", l, o, models=models)
    assert [row["id"] for row in rows] == ["coder", "gpt-4o", "later", "nowhere", "tiny", "q:7b"]
    assert rows[0]["of"] == rows[1]["of"] == "l"
    assert rows[2] == {"id": "later", "object": "model", "owned_by": "warmgate"}
    tags = shown("/api/tags", l, o, models=models)
    assert [row["name"] for row in tags] == ["coder", "gpt-4o", "nowhere", "q:7b"], "the second target can be reached here"
    assert [row["model"] for row in tags[:3]] == ["coder", "gpt-4o", "nowhere"]
    assert all(row["of"] == "o" for row in tags)


def test_a_name_has_the_row_of_its_first_target_whatever_the_order_of_backends() -> None:
    fleet = backend("a", "openai", "small"), backend("b", "openai", "large")
    coder = NamedModel("coder", (), (Target("b", "large"), Target("a", "small")))
    assert shown("/v1/models", *fleet, models=(coder,))[0]["of"] == "b"
    anywhere = NamedModel("large")
    assert shown("/v1/models", *fleet, models=(anywhere,))[0]["of"] == "b"


def test_ps_shows_no_model_that_is_not_loaded() -> None:
    rows = shown("/api/ps", backend("o", "ollama"), models=(NamedModel("later", (), (Target("o", "q"),)),))
    assert rows == []


@pytest.mark.parametrize(("name", "found"), [("coder", "coder"), ("claude-3", "coder"), ("tiny", "tiny"), ("nothing", None)])
def test_one_model(name: str, found: str | None) -> None:
    fleet = FleetView((backend("l", "llamacpp", "tiny"),))
    catalog = Catalog((NamedModel("coder", ("claude-*",), (Target("l", "tiny"),)),))
    row = lists.one(name, fleet, catalog)
    assert (orjson.loads(row)["id"] if row else None) == found


def test_which_path_names_a_model() -> None:
    fleet, catalog = FleetView((backend("l", "llamacpp", "tiny"), backend("o", "ollama", "q"))), Catalog()
    assert lists.model_named("/v1/models/org%2Ftiny", fleet, catalog) == "org/tiny"
    assert lists.model_named("/v1/models/", fleet, catalog) is None
    assert lists.model_named("/v1/modelsmore", fleet, catalog) is None
    assert lists.model_named("/v1/models/tiny", FleetView(fleet.backends[:1]), catalog) is None, "its own answer is better"
