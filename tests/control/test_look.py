"""A server that is not what it is taken for: named in the configuration, or found and replaced on the same port."""

from __future__ import annotations

import pytest

from gateway.backends import KINDS
from gateway.backends.auto import SIGNS
from gateway.config import Backend
from gateway.control.probe import control_of, look
from gateway.dispatch.plan import address_of
from gateway.values import Probe
from tests.support import personas
from tests.support.personas import Canned, Persona
from tests.support.scripted import ScriptedUpstream

WORDS = "correct its `kind`, or leave it out to have it found out"


async def seen(persona: Persona, configured: str, known: str | None = None) -> Probe:
    """known: what an `auto` backend was the last time."""
    async with ScriptedUpstream(persona) as server:
        backend = Backend(url=server.url, kind=configured)
        control = control_of(backend, address_of(backend))
        try:
            return await look(backend, control, KINDS[known or configured])
        finally:
            await control.close()


@pytest.mark.parametrize(("kind", "path"), [("llamacpp", "/props"), ("vllm", "/version"), ("omlx", "/health")])
async def test_another_server_than_the_configuration_says_is_up_with_a_problem(kind: str, path: str) -> None:
    others = personas.openai("tiny")
    healthy = Persona("healthy", {**others.answers, "GET /health": Canned(200, b"{}")}, others.not_found)
    probe = await seen(healthy, kind)
    assert (probe.up, [model.name for model in probe.models]) == (True, ["tiny"])
    assert probe.problem == f"{path} not answered as {kind} does; {WORDS}"


@pytest.mark.parametrize("kind", [*dict.fromkeys(kind.name for _, _, kind in SIGNS)])
async def test_no_kind_is_taken_for_another(kind: str) -> None:
    probe = await seen(personas.openai("tiny"), kind)
    assert probe.problem


@pytest.mark.parametrize(("persona", "kind"), [(personas.llamacpp(), "llamacpp"), (personas.openai(), "openai")])
async def test_what_the_configuration_says_is_right(persona: Persona, kind: str) -> None:
    probe = await seen(persona, kind)
    assert (probe.up, probe.kind, probe.problem) == (True, kind, None)


@pytest.mark.parametrize("status", [401, 403, 500, 503])
async def test_a_sign_that_may_not_be_seen_proves_nothing(status: int) -> None:
    shy = personas.llamacpp()
    probe = await seen(Persona("shy", {**shy.answers, "GET /props": Canned(status, b"{}")}, shy.not_found), "llamacpp")
    assert (probe.up, probe.problem) == (True, None)


async def test_another_server_that_also_speaks_openai_has_taken_the_port_of_an_auto_backend() -> None:
    assert (await seen(personas.openai("tiny"), "auto", known="llamacpp")).kind == "openai"
    assert (await seen(personas.llamacpp(), "auto", known="llamacpp")).kind == "llamacpp"
