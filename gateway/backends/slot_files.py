"""Slots of a llama.cpp server as files on its disk: saved, restored, and proved to belong to the model that runs.

Measured on b11434-b11549. A busy slot is saved or restored when its answer is over. A file of another model of the same shape
is taken and answers wrongly, and no endpoint tells such models apart: so a fixed prompt is run once, and its first token is
what the model is known by. A file that was cut off is refused, or ends the server (a failed assertion). Names have no path
parts (400), and nothing deletes a file. 501: the server was started without `--slot-save-path`, or has a vision projector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.backends.control import Answer, Control
from gateway.dialects.counts import count, duration
from gateway.errors import Unreachable, WarmgateError

PROBE_NAME = "../warmgate"
"""A name that is refused (400) where slots can be saved, so that asking saves nothing."""

PROOF_PROMPT = "Seven boats lie at the quay this morning, and the name painted on the first of them is"
"""Read by each server process once. Its length decides what the proof costs: about twenty tokens."""

NEAR = 0.02
"""Largest difference of two log-probabilities of one model: the same sums in another order differ by less than a thousandth."""


class SlotFailure(WarmgateError):
    """reason: `unsupported` (this server saves no slots), `refused`, `unreachable`, or another word of a closed set."""

    def __init__(self, reason: str, message: str):
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Moved:
    """What was written to a file or read from one. size: bytes; seconds: for which the server did nothing else."""

    tokens: int
    size: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Proof:
    """What a model says first to PROOF_PROMPT."""

    token: int
    logprob: float

    def agrees(self, other: Proof) -> bool:
        return self.token == other.token and abs(self.logprob - other.logprob) <= NEAR


@dataclass(frozen=True, slots=True)
class Row:
    """A row of `/slots`. task: number of its last task, -1 if it had none; tokens: that it holds, None if it had no task."""

    number: int
    busy: bool
    task: int
    tokens: int | None


async def can_save(control: Control) -> bool:
    """Whether slots can be saved, as far as that is known without saving one. Raises Unreachable."""
    return (await control.post("/slots/0?action=save", {"filename": PROBE_NAME})).status == 400


async def identity(control: Control) -> str:
    """What is told of the model and of the shape of its KV cache. Two texts that differ are two models; two that do not differ
    may be. Raises Unreachable."""
    props = await control.get("/props")
    adapters = (await control.get("/lora-adapters")).body
    settings = props.field("default_generation_settings")
    context = settings.get("n_ctx") if isinstance(settings, dict) else None
    told = [props.field(name) for name in ("model_path", "model_alias", "model_ftype", "build_info")]
    types = [props.field(name) for name in ("cache_type_k", "cache_type_v")]  # not told up to b11549
    return repr((*told, context, *types, _adapters(adapters)))


async def mark(control: Control) -> str | None:
    """What is different in each process of the server, None where it has nothing of the kind. Raises Unreachable."""
    found = (await control.get("/props")).field("media_marker")
    return found if isinstance(found, str) and found else None


async def prove(control: Control, slot: int, timeout: float) -> Proof:
    """Run the fixed prompt in a slot, whose content is lost. Raises SlotFailure, Unreachable."""
    body = {
        "prompt": PROOF_PROMPT, "n_predict": 1, "temperature": 0, "n_probs": 1, "cache_prompt": False, "id_slot": slot,
    }  # fmt: skip
    answer = await control.post("/completion", body, timeout)
    rows = answer.rows("completion_probabilities")
    token, logprob = (rows[0].get("id"), rows[0].get("logprob")) if rows else (None, None)
    if not isinstance(token, int) or not isinstance(logprob, int | float):
        raise SlotFailure("unproved", f"it tells no probability of its first token ({answer.status}: {answer.text})")
    return Proof(token, float(logprob))


async def save(control: Control, slot: int, name: str, timeout: float) -> Moved:
    """Write what a slot holds. Raises SlotFailure, Unreachable."""
    answer = await control.post(f"/slots/{slot}?action=save", {"filename": name}, timeout)
    return _moved(answer, slot, "n_saved", "n_written", "save_ms")


async def restore(control: Control, slot: int, name: str, timeout: float) -> Moved:
    """Read a file into a slot; where that fails the slot is empty. Raises SlotFailure, Unreachable."""
    answer = await control.post(f"/slots/{slot}?action=restore", {"filename": name}, timeout)
    return _moved(answer, slot, "n_restored", "n_read", "restore_ms")


async def rows(control: Control, timeout: float) -> list[Row]:
    """The slots as they are now. A sleeping server is woken by it. Raises Unreachable, also where `/slots` is switched off."""
    answer = await control.get("/slots", timeout)
    if not answer.ok or not isinstance(answer.body, list):
        raise Unreachable(f"{control.base_url}/slots answers {answer.status}: {answer.text}")
    return [_row(row) for row in answer.body if isinstance(row, dict) and isinstance(row.get("id"), int)]


def _row(row: Mapping[str, Any]) -> Row:
    task = row.get("id_task")
    return Row(
        row["id"], row.get("is_processing") is True, task if isinstance(task, int) else -1, count(row.get("n_prompt_tokens"))
    )


def _moved(answer: Answer, slot: int, tokens: str, size: str, ms: str) -> Moved:
    if answer.status in (404, 405, 501):
        raise SlotFailure("unsupported", f"it saves no slots ({answer.status}: {answer.text})")
    if not answer.ok:
        raise SlotFailure("refused", f"it answers {answer.status}: {answer.text}")
    if answer.field("id_slot") != slot:  # a number out of range is silently another slot
        raise SlotFailure("refused", f"it used slot {answer.field('id_slot')} in place of {slot}")
    taken = duration(answer.field("timings", ms)) or 0.0
    return Moved(count(answer.field(tokens)) or 0, count(answer.field(size)) or 0, taken / 1000)


def _adapters(body: Any) -> tuple[tuple[str, Any], ...]:
    found = body if isinstance(body, list) else []
    return tuple((str(one.get("path")), one.get("scale")) for one in found if isinstance(one, dict))
