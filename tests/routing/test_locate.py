from __future__ import annotations

from gateway.routing.fleet import BackendView, Catalog, FleetView, NamedModel
from gateway.routing.locate import locate
from gateway.values import ModelInfo, Target

LLAMA = BackendView("llama", "llamacpp", frozenset(), up=True, known=True, owns=("/slots",), models={"a": ModelInfo("a")})
OLLAMA = BackendView(
    "ollama",
    "ollama",
    frozenset(),
    up=True,
    known=True,
    latest=True,
    owns=("/api/",),
    models={"b:latest": ModelInfo("b:latest")},
)
FLEET = FleetView((LLAMA, OLLAMA))


def first(asked: str | None, path: str, catalog: Catalog | None = None, home: str = "llama") -> Target:
    found = locate(asked, path, FLEET, catalog or Catalog(), home)
    assert found is not None
    return found.targets[0]


def test_the_named_model_decides() -> None:
    assert first("b", "/v1/embeddings") == Target("ollama", "b:latest")
    assert first("a", "/v1/embeddings") == Target("llama", None)


def test_without_a_known_model_it_is_the_listeners_own_backend() -> None:
    assert first(None, "/v1/embeddings") == Target("llama", None)
    assert first("zz", "/tokenize", home="ollama") == Target("ollama", None)


def test_a_path_of_one_kinds_api_goes_to_that_kind() -> None:
    assert first(None, "/api/pull") == Target("ollama", None)
    assert first(None, "/slots", home="ollama") == Target("llama", None)


def test_the_longest_beginning_of_a_path_that_a_kind_owns_decides() -> None:
    studio = BackendView("studio", "lmstudio", frozenset(), up=True, known=True, owns=("/api/v1/", "/api/v0/"))
    for backends in ((OLLAMA, studio), (studio, OLLAMA)):
        for path, owner in (("/api/v1/models/load", "studio"), ("/api/v0/models", "studio"), ("/api/pull", "ollama")):
            for home in ("ollama", "studio"):
                found = locate(None, path, FleetView(backends), Catalog(), home)
                assert found is not None
                assert [target.backend for target in found.targets] == [owner], (path, home)


def test_aliases_are_translated() -> None:
    catalog = Catalog((NamedModel("embed", ("text-embedding-*",), (Target("ollama", "b:latest"),)),))
    assert first("text-embedding-3", "/v1/embeddings", catalog) == Target("ollama", "b:latest")


def test_a_model_on_both_prefers_the_kind_that_owns_the_path() -> None:
    both = FleetView(
        (BackendView("llama", "llamacpp", frozenset(), up=True, known=True, models={"b:latest": ModelInfo("x")}), OLLAMA)
    )
    found = locate("b:latest", "/api/show", both, Catalog(), "llama")
    assert found is not None
    assert found.targets[0].backend == "ollama"


def test_nothing_configured() -> None:
    assert locate("a", "/x", FleetView(), Catalog(), "") is None
