"""Checks of llama.cpp's llama-server. Source of facts: its README, and measurements.

A sleeping server is not asked what would wake it, and a router nothing that would have it load a model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from gateway.doctor import slots, templates
from gateway.doctor.base import Check, Seen, only
from gateway.doctor.subject import Subject

KIND = only("llamacpp")
SECOND = 1.1
"""Seconds between two renderings of a template that calls a clock: one that tells seconds then gives another text."""

Look = Callable[[Subject], Awaitable[Iterable[Seen]]]


def awake(look: Look) -> Look:
    async def guarded(subject: Subject) -> Iterable[Seen]:
        return () if subject.seen.sleeping or not subject.seen.single_model else await look(subject)

    return guarded


async def slots_are(state: slots.State, subject: Subject) -> Iterable[Seen]:
    found = await slots.find(subject)
    if found.state != state:
        return []
    context = f"{found.context:,} tokens" if found.context else "an unknown number of tokens"
    wanted = max(found.count, 2)
    values = {"slots": wanted, "context": f"{wanted} times what one conversation needs"}
    return [Seen(f"{TOLD[state].format(count=found.count, context=context)} ({found.told}).", values)]


TOLD = {
    "emptied": "Default mode: {count} slots share one context of {context}, and an idle slot is emptied when another works",
    "kept": "Explicit slots: each of the {count} keeps its prompt while others work, and has {context} of its own",
    "one": "There is one slot, of {context}",
    "unknown": "What becomes of its {count} idle slots could not be seen",
}


async def save_path(available: bool, subject: Subject) -> Iterable[Seen]:
    """A name that is refused shows whether slots can be saved, and saves nothing."""
    heard = await subject.post("/slots/0?action=save", {"filename": "../warmgate"})
    if heard.status != (400 if available else 501):
        return []
    return [Seen("Slots can be saved to files." if available else "Slots cannot be saved: it runs without --slot-save-path.")]


async def no_metrics(subject: Subject) -> Iterable[Seen]:
    off = (await subject.get("/props")).doc.get("endpoint_metrics") is False
    return [Seen("/props says endpoint_metrics: false.")] if off else []


async def ram_cache(subject: Subject) -> Iterable[Seen]:
    emptied = (await slots.find(subject)).state == "emptied"
    told = "It is in use: idle slots are moved there" if emptied else "No answer of the server says whether it is on"
    return [Seen(f"{told}; its size is told nowhere.")]


async def router(subject: Subject) -> Iterable[Seen]:
    many = not subject.seen.single_model
    return [Seen("It is a router: settings of its models' servers cannot be asked without loading them.")] if many else []


# what the template does


async def rendered(subject: Subject) -> str | None:
    """The text of the question by which templates are judged; None where the server or the template refuses it."""
    text = (await subject.post("/apply-template", templates.question())).doc.get("prompt")
    return text if isinstance(text, str) else None


async def _clocks(subject: Subject) -> tuple[list[str], bool]:
    """Calls of a clock in the template, and whether the text changes while the doctor looks."""
    if "clocks" not in subject.memo:
        template = (await subject.get("/props")).doc.get("chat_template")
        calls = templates.dates(template if isinstance(template, str) else "")
        changes = bool(calls) and await _changes(subject)
        subject.memo["clocks"] = calls, changes
    found: tuple[list[str], bool] = subject.memo["clocks"]
    return found


async def _changes(subject: Subject) -> bool:
    first = await rendered(subject)
    await asyncio.sleep(SECOND)
    again = (await subject.server.post("/apply-template", templates.question())).doc.get("prompt")
    return first is not None and first != again


async def clock(subject: Subject) -> Iterable[Seen]:
    calls, changes = await _clocks(subject)
    timed = [call for call in calls if templates.of_the_day(call)]
    if changes:
        return [Seen("The same chat, rendered twice by /apply-template, gives two texts.")]
    return [Seen(f"The chat template writes the time of day: {', '.join(timed)}.")] if timed else []


async def date(subject: Subject) -> Iterable[Seen]:
    calls, changes = await _clocks(subject)
    if not calls or changes or any(map(templates.of_the_day, calls)):
        return []
    return [Seen(f"The chat template writes the date: {', '.join(calls)}.")]


async def tools(place: templates.Place, subject: Subject) -> Iterable[Seen]:
    text = await rendered(subject)
    if text is None or templates.tools_place(text) != place:
        return []
    return [Seen(f"/apply-template puts the tools {place} the system text.")]


CHECKS: tuple[Check[Subject], ...] = (
    Check(
        "llamacpp-slots-emptied",
        "advice",
        "The server runs in its default mode, without `-np`.",
        "A request that is pinned to a slot finds it empty and reads its whole prompt; only the cache in memory gives it back, "
        "and there only as much fits as --cache-ram allows.",
        "Start llama-server with `-np {slots}` and `-c` {context} (or `--kv-unified --no-cache-idle-slots`).",
        awake(partial(slots_are, "emptied")),
        KIND,
    ),
    Check(
        "llamacpp-slots-kept",
        "note",
        "The server runs with explicit slots, which keep their prompts.",
        "This is the mode in which a prefix stays where it is; -c is divided among the slots, and one agent more than there "
        "are slots takes another's.",
        "Keep `-np` at the number of agents that take turns, and `-c` at {context}.",
        awake(partial(slots_are, "kept")),
        KIND,
    ),
    Check(
        "llamacpp-one-slot",
        "advice",
        "The server has one slot.",
        "A title, a summary or a second agent takes the slot of the conversation, which then depends on the cache in memory.",
        "Start llama-server with `-np 2` and twice the `-c`, and leave `--cache-ram` on.",
        awake(partial(slots_are, "one")),
        KIND,
    ),
    Check(
        "llamacpp-slots-unknown",
        "note",
        "What the server does with idle slots could not be seen.",
        "Without `-np` a slot is emptied as soon as another works, with it a slot keeps its prompt.",
        "Ask again while nobody uses the server, and start it without `--no-slots`.",
        awake(partial(slots_are, "unknown")),
        KIND,
    ),
    Check(
        "llamacpp-no-slot-files",
        "advice",
        "Slots cannot be saved to files.",
        "What was read is lost with a restart, and one slot cannot hand a prefix to another.",
        "Start llama-server with `--slot-save-path DIRECTORY`, a directory that only you can read.",
        awake(partial(save_path, False)),
        KIND,
    ),
    Check(
        "llamacpp-slot-files",
        "note",
        "Slots can be saved to files.",
        "A prefix can outlive a restart; the files hold what prompts said, and llama-server deletes none of them.",
        "Keep the directory of `--slot-save-path` private, and look at its size now and then.",
        awake(partial(save_path, True)),
        KIND,
    ),
    Check(
        "llamacpp-ram-cache",
        "note",
        "The size of the cache in memory cannot be asked.",
        "At the default of 8192 MiB it holds a few long conversations of a large model; `--cache-ram 0` turns it off.",
        "Give `--cache-ram` what memory allows; `warmgate doctor --probe MODEL` shows whether a prompt outlasts another.",
        awake(ram_cache),
        KIND,
    ),
    Check(
        "llamacpp-no-metrics",
        "advice",
        "The server's own metrics are off.",
        "Its counts of cached and evaluated tokens are the only ones that include clients that do not use Warmgate.",
        "Start llama-server with `--metrics`.",
        no_metrics,
        KIND,
    ),
    Check(
        "llamacpp-router",
        "note",
        "The server is a router for several models.",
        "Each model's server has slots and caches of its own, and is stopped when more than --models-max are wanted.",
        "Put `-np`, `-c` and `--slot-save-path` into the models' presets, and raise `--models-max` where memory allows.",
        router,
        KIND,
    ),
    Check(
        "llamacpp-template-clock",
        "serious",
        "The chat template writes the time of day into the prompt.",
        "What stands behind it is read again whenever the time has changed, whatever the gateway does to the request.",
        "Start llama-server with `--chat-template-file`, and a copy of the template in which the clock is a fixed text.",
        awake(clock),
        KIND,
    ),
    Check(
        "llamacpp-template-date",
        "advice",
        "The chat template writes the date into the prompt.",
        "At midnight every prefix is read again, whatever the gateway does to the request.",
        "Start llama-server with `--chat-template-file`, and a copy of the template in which the date is a fixed text.",
        awake(date),
        KIND,
    ),
    Check(
        "llamacpp-tools-behind",
        "advice",
        "The chat template puts tools behind the system text.",
        "Whatever changes in the system text has the server read all tools again.",
        "Keep `canonical: {{ mode: rewrite }}`, which takes what changes out of the system text.",
        awake(partial(tools, "behind")),
        KIND,
    ),
    Check(
        "llamacpp-tools-before",
        "note",
        "The chat template puts tools before the system text.",
        "One tool more, fewer or in another place has the server read the whole prompt again.",
        "Keep `tools` among `canonical.rules`, and give one agent the same tools in each session.",
        awake(partial(tools, "before")),
        KIND,
    ),
)
