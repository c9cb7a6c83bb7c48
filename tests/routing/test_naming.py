from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UnknownModel
from gateway.routing.decisions import DECISIONS
from gateway.routing.fleet import BackendView, Catalog, FleetView, NamedModel
from gateway.routing.naming import Named, name
from gateway.values import ModelInfo, Target

CHAT = "/v1/chat/completions"
NATIVE = "/api/chat"


def backend(name: str, *models: str, **more: object) -> BackendView:
    settings: dict[str, object] = {"kind": "openai", "serves": frozenset({CHAT}), "up": True, "known": True} | more
    return BackendView(name, models={model: ModelInfo(model) for model in models}, **settings)  # type: ignore[arg-type]


def named(asked: str | None, *backends: BackendView, catalog: Catalog | None = None, path: str = CHAT, home: str = "") -> Named:
    home = home or (backends[0].name if backends else "")
    return name(asked, path, FleetView(backends), Catalog() if catalog is None else catalog, home)


def test_the_backend_that_lists_the_model_gets_it() -> None:
    assert named("b", backend("one", "a"), backend("two", "b")) == Named((Target("two", None),), "b", "only")


def test_several_come_in_the_order_of_the_configuration_whatever_their_health() -> None:
    found = named("m", backend("one", "m", up=False), backend("two", "m"))
    assert found == Named((Target("one", None), Target("two", None)), "m", "order")


def test_an_alias_or_glob_becomes_the_targets_own_name() -> None:
    catalog = Catalog((NamedModel("coder", ("gpt-*", "sonnet"), (Target("one", "qwen"),)), NamedModel("exact", ("gpt-4",), ())))
    assert named("gpt-5", backend("one", "qwen"), catalog=catalog).targets == (Target("one", "qwen"),)
    assert named("sonnet", backend("one", "qwen"), catalog=catalog).label == "coder"
    with pytest.raises(UnknownModel, match="configured"):
        named("gpt-4", backend("one", "qwen"), catalog=catalog)  # the exact alias wins over the glob


def test_a_configured_name_without_targets_goes_to_who_lists_it_else_to_who_may_take_it() -> None:
    catalog = Catalog((NamedModel("coder"),))
    assert named("coder", backend("one", single_model=True), backend("two", "coder"), catalog=catalog).targets == (
        Target("two", "coder"),
    )
    assert named("coder", backend("one", "x"), backend("two", "y", single_model=True), catalog=catalog).targets == (
        Target("two", "coder"),
    )


def test_a_target_on_a_kind_that_does_not_serve_the_path_is_no_candidate() -> None:
    catalog = Catalog((NamedModel("coder", (), (Target("one", "q"), Target("two", "q:7b"))),))
    one = backend("one", "q")
    two = backend("two", "q:7b", serves=frozenset({CHAT, NATIVE}))
    assert named("coder", one, two, catalog=catalog, path=NATIVE).targets == (Target("two", "q:7b"),)
    with pytest.raises(UnknownModel, match="serves /api/chat") as caught:
        named("coder", one, catalog=catalog, path=NATIVE)
    assert caught.value.code == "path_not_served"


def test_ollamas_latest_tag_is_optional() -> None:
    assert named("q", backend("one", "q:latest", latest=True)) == Named((Target("one", "q:latest"),), "q:latest", "only")
    assert named("q:latest", backend("one", "q", latest=True)).targets == (Target("one", "q"),)
    with pytest.raises(UnknownModel):
        named("q", backend("one", "q:latest"))


def test_a_single_model_server_takes_any_name_and_labels_it_as_its_own() -> None:
    assert named("whatever", backend("one", "m", single_model=True)) == Named((Target("one", None),), "m", "single_model")
    assert named(None, backend("one", "m", single_model=True)).decision == "single_model"


def test_among_servers_that_take_any_name_the_listeners_own_comes_first() -> None:
    one, two = backend("one", "m", single_model=True), backend("two", "n", single_model=True)
    found = named("whatever", one, two, home="two")
    assert found == Named((Target("two", None), Target("one", None)), "n", "single_model")


def test_a_name_somebody_lists_does_not_go_to_the_single_model_server() -> None:
    assert named("b", backend("one", "a", single_model=True), backend("two", "b")).targets == (Target("two", None),)


def test_before_a_list_is_known_the_model_is_tried() -> None:
    assert named("m", backend("one", known=False, up=False)) == Named((Target("one", None),), "other", "unlisted")


def test_unknown_models_are_refused_with_what_there_is() -> None:
    with pytest.raises(UnknownModel, match=r"Did you mean 'qwen3-coder'\? Known models: qwen3-coder, embed") as caught:
        named("qwen3-codr", backend("one", "qwen3-coder", "embed"))
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")


def test_no_backend_at_all() -> None:
    with pytest.raises(UnknownModel, match="No backends are configured"):
        named("m")


@given(
    asked=st.one_of(st.none(), st.sampled_from(["a", "b", "c", "alias", "zz"])),
    fleet=st.lists(
        st.builds(
            lambda models, up, known, single: backend("x", *models, up=up, known=known, single_model=single),
            st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=3),
            st.booleans(),
            st.booleans(),
            st.booleans(),
        ),
        max_size=4,
    ),
)
def test_each_backend_is_named_once_with_a_known_decision(asked: str | None, fleet: list[BackendView]) -> None:
    backends = [replace(one, name=f"b{number}") for number, one in enumerate(fleet)]
    try:
        found = named(asked, *backends, catalog=Catalog((NamedModel("a", ("alias",)),)))
    except UnknownModel:
        return
    names = [target.backend for target in found.targets]
    assert names
    assert len(set(names)) == len(names)
    assert found.decision in DECISIONS
