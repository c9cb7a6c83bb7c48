from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UnknownModel
from gateway.routing.choose import DECISIONS, choose
from gateway.routing.fleet import BackendView, Catalog, FleetView, NamedModel
from gateway.values import ModelInfo, Target

CHAT = "/v1/chat/completions"
NATIVE = "/api/chat"


def backend(name: str, *models: str, resident: bool | None = True, **more: object) -> BackendView:
    settings: dict[str, object] = {"kind": "openai", "serves": frozenset({CHAT}), "up": True, "known": True} | more
    return BackendView(name, models={model: ModelInfo(model, resident=resident) for model in models}, **settings)  # type: ignore[arg-type]


def route(
    asked: str | None,
    *backends: BackendView,
    catalog: Catalog | None = None,
    busy: dict[str, int] | None = None,
    path: str = CHAT,
):
    names = Catalog() if catalog is None else catalog
    return choose(
        asked, path, FleetView(backends), names, backends[0].name if backends else "", lambda name: (busy or {}).get(name, 0)
    )


def test_the_backend_that_lists_the_model_gets_it() -> None:
    found = route("b", backend("one", "a"), backend("two", "b"))
    assert (found.targets, found.decision, found.label) == ((Target("two", None),), "only", "b")


@pytest.mark.parametrize(
    ("first", "second", "busy", "winner", "decision"),
    [
        ({}, {}, {}, "one", "order"),
        ({}, {}, {"one": 2}, "two", "least_busy"),
        ({"resident": False}, {}, {"two": 5}, "two", "resident"),
        ({"up": False}, {}, {}, "two", "only"),
        ({"circuit_open": True}, {"resident": False}, {"two": 9}, "two", "only"),
        ({"up": False}, {"up": False}, {}, "one", "unhealthy"),
    ],
)
def test_healthy_then_resident_then_idle_then_order(first, second, busy, winner, decision) -> None:
    found = route("m", backend("one", "m", **first), backend("two", "m", **second), busy=busy)
    assert (found.targets[0].backend, found.decision) == (winner, decision)
    assert len(found.targets) == 2, "the other one stays as a last resort"


def test_an_alias_or_glob_becomes_the_targets_own_name() -> None:
    catalog = Catalog((NamedModel("coder", ("gpt-*", "sonnet"), (Target("one", "qwen"),)), NamedModel("exact", ("gpt-4",), ())))
    assert route("gpt-5", backend("one", "qwen"), catalog=catalog).targets == (Target("one", "qwen"),)
    assert route("sonnet", backend("one", "qwen"), catalog=catalog).label == "coder"
    with pytest.raises(UnknownModel, match="configured"):
        route("gpt-4", backend("one", "qwen"), catalog=catalog)  # the exact alias wins over the glob


def test_a_target_on_a_kind_that_does_not_serve_the_path_is_no_candidate() -> None:
    catalog = Catalog((NamedModel("coder", (), (Target("one", "q"), Target("two", "q:7b"))),))
    one = backend("one", "q")
    two = backend("two", "q:7b", serves=frozenset({CHAT, NATIVE}))
    assert route("coder", one, two, catalog=catalog, path=NATIVE).targets == (Target("two", "q:7b"),)
    with pytest.raises(UnknownModel, match="serves /api/chat") as caught:
        route("coder", one, catalog=catalog, path=NATIVE)
    assert caught.value.code == "path_not_served"


def test_ollamas_latest_tag_is_optional() -> None:
    assert route("q", backend("one", "q:latest", latest=True)).targets == (Target("one", "q:latest"),)
    assert route("q:latest", backend("one", "q", latest=True)).targets == (Target("one", "q"),)
    with pytest.raises(UnknownModel):
        route("q", backend("one", "q:latest"))


def test_a_single_model_server_takes_any_name_and_labels_it_as_its_own() -> None:
    found = route("whatever", backend("one", "m", single_model=True))
    assert (found.targets, found.decision, found.label) == ((Target("one", None),), "single_model", "m")
    assert route(None, backend("one", "m", single_model=True)).decision == "single_model"


def test_a_name_somebody_lists_does_not_go_to_the_single_model_server() -> None:
    assert route("b", backend("one", "a", single_model=True), backend("two", "b")).targets == (Target("two", None),)


def test_before_a_list_is_known_the_model_is_tried() -> None:
    found = route("m", backend("one", known=False, up=False))
    assert (found.targets, found.decision, found.label) == ((Target("one", None),), "unlisted", "other")


def test_unknown_models_are_refused_with_what_there_is() -> None:
    with pytest.raises(UnknownModel, match=r"Did you mean 'qwen3-coder'\? Known models: qwen3-coder, embed") as caught:
        route("qwen3-codr", backend("one", "qwen3-coder", "embed"))
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")


def test_no_backend_at_all() -> None:
    with pytest.raises(UnknownModel, match="No backends are configured"):
        route("m")


@given(
    asked=st.one_of(st.none(), st.sampled_from(["a", "b", "c", "alias", "zz"])),
    fleet=st.lists(
        st.builds(
            lambda models, up, known, single, opened: backend(
                "x", *models, up=up, known=known, single_model=single, circuit_open=opened
            ),
            st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=3),
            st.booleans(), st.booleans(), st.booleans(), st.booleans(),
        ),
        max_size=4,
    ),
    load=st.integers(0, 5),
)  # fmt: skip
def test_a_route_names_each_backend_once_and_a_known_reason(asked, fleet, load) -> None:
    from dataclasses import replace

    view = FleetView(tuple(replace(b, name=f"b{i}") for i, b in enumerate(fleet)))
    catalog = Catalog((NamedModel("a", ("alias",), ()),))
    try:
        found = choose(asked, CHAT, view, catalog, "b0", lambda name: load if name == "b1" else 0)
    except UnknownModel:
        return
    names = [target.backend for target in found.targets]
    assert names
    assert len(set(names)) == len(names)
    assert found.decision in DECISIONS
