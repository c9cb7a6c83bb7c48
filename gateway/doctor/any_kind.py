"""Checks of every server that answers."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.doctor.base import Check, Seen, only
from gateway.doctor.subject import Subject
from gateway.values import ModelInfo

ENOUGH = 64_000
"""Tokens of context without which Hermes Agent refuses a model. Source: recorded from hermes-agent 0.19."""

WIDER = {
    "llamacpp": "Start llama-server with `-c 65536`; with `-np N`, with N times that.",
    "llamaswap": "Put `-c 65536` into the `cmd` of the model.",
    "lmstudio": "Load the model with `--context-length 65536`, or set that as its default.",
    "ollama": "Start Ollama with `OLLAMA_CONTEXT_LENGTH=65536`, or put `PARAMETER num_ctx 65536` into the Modelfile.",
    "omlx": "Raise the model's context window in oMLX's settings.",
    "openai": "Start the server with a context of 65536 tokens.",
    "vllm": "Start vLLM with `--max-model-len 65536`.",
}
"""Kind -> how its context is made larger."""


def _narrow(subject: Subject) -> list[ModelInfo]:
    """Models in use whose context is known and small: what is not loaded may yet be loaded with another."""
    return [m for m in subject.seen.models if m.resident is not False and m.context and m.context < ENOUGH]


def _told(models: list[ModelInfo]) -> str:
    shown = ", ".join(f"{model.name} has {model.context:,} tokens" for model in models[:4])
    return f"{shown}{f', and {len(models) - 4} more have few' if len(models) > 4 else ''}."


async def context(subject: Subject) -> Iterable[Seen]:
    return [Seen(_told(models))] if (models := _narrow(subject)) else []


async def hermes(subject: Subject) -> Iterable[Seen]:
    models = _narrow(subject)
    asks = any("hermes" in row.agent.lower() for row in subject.setup.asked)
    return [Seen(f"Hermes Agent uses this gateway, and {_told(models)}")] if asks and models else []


async def sleeping(subject: Subject) -> Iterable[Seen]:
    return [Seen("It sleeps: weights and caches have been dropped.")] if subject.seen.sleeping else []


CHECKS: tuple[Check[Subject], ...] = (
    Check(
        "sleeping",
        "advice",
        "A server sleeps.",
        "The next request loads the weights and reads its whole prompt.",
        "Start llama-server without `--sleep-idle-seconds`; wake vLLM by `POST /wake_up`.",
        sleeping,
        only("llamacpp") | only("vllm"),
    ),
    Check(
        "hermes-context",
        "serious",
        "Hermes Agent is used with a context below 64,000 tokens.",
        "It refuses such a model, or summarises so often that little of a conversation is ever reused.",
        "Give the model 65,536 tokens of context; the row `...-context` of its kind says how.",
        hermes,
    ),
    *(
        Check(
            f"{kind}-context",
            "advice",
            "A context is below 64,000 tokens.",
            "Agents cut or summarise their history sooner, and each time it is read again; Hermes Agent refuses the model.",
            fix,
            context,
            only(kind),
        )
        for kind, fix in WIDER.items()
    ),
)
