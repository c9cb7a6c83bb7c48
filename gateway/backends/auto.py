"""Find out what a server is by asking what only one kind answers, then look at it as that kind."""

from __future__ import annotations

from collections.abc import Callable

from gateway.backends import llamacpp, llamaswap, lmstudio, ollama, omlx, openai, vllm
from gateway.backends.base import Kind
from gateway.backends.control import Answer, Control
from gateway.values import Probe

KIND = "auto"
OPENAI = openai.OPENAI

SIGNS: tuple[tuple[str, Callable[[Answer], bool], Kind], ...] = (
    ("/running", llamaswap.lists_running, llamaswap.LLAMASWAP),
    (lmstudio.V1, lmstudio.lists_v1, lmstudio.LMSTUDIO),
    (lmstudio.V0, lmstudio.lists_v0, lmstudio.LMSTUDIO),
    ("/props", llamacpp.tells_props, llamacpp.LLAMACPP),
    ("/api/tags", ollama.lists_tags, ollama.OLLAMA),
    ("/health", omlx.tells_engine_pool, omlx.OMLX),
    ("/version", vllm.tells_version, vllm.VLLM),
)
"""Path, whether its answer is the one that only this kind gives, the kind; the first that fits. Who speaks another's language
beside its own stands before it: llama-swap has Ollama's `/api/version`, some llama-servers have its `/api/tags`."""

KNOWN: tuple[Kind, ...] = (*{kind.name: kind for _, _, kind in SIGNS}.values(), OPENAI)


async def probe(control: Control) -> Probe:
    for path, fits, kind in SIGNS:
        if fits(await control.get(path)):
            return await kind.probe(control)
    found = await OPENAI.probe(control)
    # Only a list of models proves the kind; a server that answers nothing useful may yet turn out to be something else.
    return found if found.up or found.loading else Probe(KIND, up=False, problem=found.problem)


async def contradiction(kind: str, control: Control) -> str | None:
    """What speaks against a server being of this kind, as a sentence; None if it gives the kind's sign, or may only not tell.

    Raises Unreachable.
    """
    silent: list[str] = []
    for path, fits, owner in SIGNS:
        if owner.name == kind:
            answer = await control.get(path)
            if fits(answer) or answer.status in (401, 403) or answer.status >= 500:
                return None
            silent.append(path)
    if not silent:
        return None
    return f"{' and '.join(silent)} not answered as {kind} does; correct its `kind`, or leave it out to have it found out"


AUTO = Kind(
    name=KIND,
    serves=frozenset[str]().union(*(kind.serves for kind in KNOWN)),
    probe=probe,
    lists={path: key for kind in KNOWN for path, key in kind.lists.items()},
    strip=frozenset[str]().union(*(kind.strip for kind in KNOWN)),
    destructive=tuple(dict.fromkeys(glob for kind in KNOWN for glob in kind.destructive)),
)
