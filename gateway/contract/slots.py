"""Probes of llama.cpp's slots: which of its modes it is in shows only by what a pinned prompt finds.

Started without `-np`, it has four slots and moves idle ones into a cache in memory, so that a slot is empty for whoever pins to
it; with `-np N`, slots keep what they hold. `/props` does not tell the two apart. Source: measured.
"""

from __future__ import annotations

from typing import Any

from gateway.contract.base import Finding, Probe, differs, judged, listed, ok, skipped
from gateway.contract.bodies import CHAT
from gateway.contract.server import Server
from gateway.values import Usage

WORDS = 120
FILE = "warmgate-contract.bin"
"""Always the same name, because a slot file cannot be deleted over HTTP."""

LLAMACPP = frozenset({"llamacpp"})


async def _pinned(server: Server, text: str, slot: int) -> Usage:
    return await server.usage(CHAT, text, id_slot=slot)


async def _tokens(server: Server, slot: int) -> int | None:
    """Tokens that a slot holds, None where it has held none yet or the server does not tell."""
    heard = await server.get("/slots")
    rows = heard.body if heard.status == 200 else ()
    row = next((row for row in rows if isinstance(row, dict) and row.get("id") == slot), {})
    held = row.get("n_prompt_tokens")
    return held if isinstance(held, int) else None


async def pin(server: Server) -> Finding:
    """A prompt pinned to slot 0, another to the last slot, the first again: what is left of it, and what `/slots` says."""
    last = (server.seen.slots or 1) - 1
    text, other = server.text(WORDS), server.text(WORDS)
    await _pinned(server, text, 0)
    if last:
        await _pinned(server, other, last)
    held = await _tokens(server, 0)
    again = await _pinned(server, text, 0)
    kept = (again.cached or 0) * 2 >= (again.prompt or 1)
    detail = f"{again.cached} of {again.prompt} tokens found on slot 0 when another had been at work; /slots said {held}"
    measured: dict[str, Any] = {"mode": "kept" if kept else "emptied", "cached": again.cached, "held": held, "slots": last + 1}
    if held is None:
        return ok(f"{detail}: slots are {measured['mode']}", **measured)
    return judged(kept == (held > 0), f"{detail}: slots are {measured['mode']}", "both to say the same", **measured)


async def unpinned(server: Server) -> Finding:
    """What a pin may not find, the server's own choice does: in its slots, or in its cache in memory."""
    text = server.text(WORDS)
    await server.usage(CHAT, text)
    await server.usage(CHAT, server.text(WORDS))
    again = await server.usage(CHAT, text)
    detail = f"{again.cached} of {again.prompt} tokens found when another prompt had come between"
    if (server.seen.slots or 1) == 1 and not again.cached:
        return ok(f"{detail}: one slot, and no cache behind it", cached=again.cached)
    return judged((again.cached or 0) * 2 >= (again.prompt or 1), detail, "most of them", cached=again.cached)


async def out_of_range(server: Server) -> Finding:
    """A pin to a slot that does not exist is no error: another one is used."""
    beyond = (server.seen.slots or 1) + 3
    heard = await server.answer(CHAT, server.text(8), 1, id_slot=beyond)
    return ok(f"id_slot {beyond} of {server.seen.slots}: {heard.status}, a slot was used all the same", status=heard.status)


async def rows(server: Server) -> Finding:
    heard = await server.get("/slots")
    if heard.status in (404, 501):
        return skipped(f"/slots is switched off: {heard.status}")
    found = heard.body if isinstance(heard.body, list) else []
    count = len(found)
    fine = count == server.seen.slots and all("is_processing" in row and "id" in row for row in found)
    return judged(fine, f"{count} rows, total_slots {server.seen.slots}", "as many, with id and is_processing", rows=count)


async def files(server: Server) -> Finding:
    """A name that is refused shows whether slots can be saved, and saves nothing."""
    heard = await server.post("/slots/0?action=save", {"filename": "../warmgate"})
    found = {501: "no: started without --slot-save-path", 400: "yes; a path in the name is refused"}.get(heard.status)
    if found is None:
        return differs(f"{heard.status}: {heard.words}; expected 400 or 501", status=heard.status)
    return ok(f"slots can be saved: {found}", available=heard.status == 400)


async def restore_then_send(server: Server) -> Finding:
    """A prefix that was saved is restored right before its request, pinned or not: the request finds it."""
    text = server.text(WORDS)
    usage = await _pinned(server, text, 0)
    saved = await server.post("/slots/0?action=save", {"filename": FILE})
    if saved.status == 501:
        return skipped("started without --slot-save-path")
    if not saved.doc.get("n_saved"):
        return differs(f"save answers {saved.status}: {saved.words}; expected n_saved")
    found: dict[str, int | None] = {}
    for how, fields in (("pinned", {"id_slot": 0}), ("unpinned", {})):
        await _pinned(server, server.text(WORDS), 0)
        restored = await server.post("/slots/0?action=restore", {"filename": FILE})
        if not restored.doc.get("n_restored"):
            return differs(f"restore answers {restored.status}: {restored.words}; expected n_restored")
        found[how] = (await server.usage(CHAT, text, **fields)).cached
    fine = all((cached or 0) * 2 >= (usage.prompt or 1) for cached in found.values())
    detail = f"{saved.doc['n_saved']} tokens saved as {FILE}; found after restoring, of {usage.prompt}: {listed(found)}"
    return judged(fine, detail, "most of them", **found)


PROBES = (
    Probe("slots-rows", "/slots has one row for each of total_slots.", "llama.cpp's README", rows, LLAMACPP),
    Probe(
        "slots-pin",
        "Whether a slot keeps its prompt when another slot works, and that `/slots` tells so.",
        "measured on llama.cpp: kept with -np N, emptied without",
        pin,
        LLAMACPP,
    ),
    Probe(
        "slots-unpinned",
        "A prompt that comes back without a pin is found, whatever the mode.",
        "measured on llama.cpp",
        unpinned,
        LLAMACPP,
    ),
    Probe(
        "slots-out-of-range",
        "An id_slot that does not exist is no error, so it must be checked against total_slots.",
        "measured on llama.cpp",
        out_of_range,
        LLAMACPP,
    ),
    Probe(
        "slots-files",
        "Whether slots can be saved (501 without --slot-save-path), and that a path in a file name is refused.",
        "measured on llama.cpp",
        files,
        LLAMACPP,
    ),
    Probe(
        "slots-restore",
        "A restored slot is found by the next request, pinned or not.",
        "measured on llama.cpp",
        restore_then_send,
        LLAMACPP,
        mutating=True,
    ),
)
