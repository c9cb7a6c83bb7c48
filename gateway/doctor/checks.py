"""All checks, in the order in which they are made and told."""

from __future__ import annotations

from gateway.doctor import any_kind, canary, llamacpp, lmstudio, measure, ollama, omlx, others, setup, traffic, vllm
from gateway.doctor.absent import ABSENT_CHECKS, UNANSWERED
from gateway.doctor.base import Check
from gateway.doctor.subject import Setup, Subject

SETUP_CHECKS: tuple[Check[Setup], ...] = (*setup.CHECKS, *traffic.CHECKS)

SERVER_CHECKS: tuple[Check[Subject], ...] = (
    *any_kind.CHECKS,
    *llamacpp.CHECKS,
    *ollama.CHECKS,
    *lmstudio.CHECKS,
    *vllm.CHECKS,
    *omlx.CHECKS,
    *others.CHECKS,
)

GROUPS = {
    "The gateway and its configuration": setup.CHECKS,
    "Clients": traffic.CHECKS,
    "Any server": (*ABSENT_CHECKS, UNANSWERED, *any_kind.CHECKS),
    "llama.cpp": llamacpp.CHECKS,
    "Ollama": ollama.CHECKS,
    "LM Studio": lmstudio.CHECKS,
    "vLLM": vllm.CHECKS,
    "oMLX": omlx.CHECKS,
    "llama-swap and plain servers": others.CHECKS,
    "`--probe`": measure.CHECKS,
    "`--canary`": canary.CHECKS,
}
"""Heading of the documentation -> its rows."""
