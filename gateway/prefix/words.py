"""What a verdict says to a person: one sentence, and what to do about it. Tables; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gateway.canonical.settings import Mode
from gateway.values import Reason

SENTENCES: Mapping[Reason, str] = {
    "first_seen": "No earlier request of this route is known, so all of the prompt was new.",
    "system_changed": "The system text is not what it was in the request before, so all behind the change was computed again.",
    "tools_changed": "The list of tools is not what it was in the request before, so all behind the change was computed again.",
    "history_changed": "An earlier message came back in another form, so all behind it was computed again.",
    "params_changed": "A parameter that the prompt is rendered with is another than in the request before.",
    "window_slide": "The client dropped its oldest messages, so all behind the gap was computed again.",
    "evicted": "The server no longer had this prefix: it made room for other prompts.",
    "slot_moved": "The slot with this prefix was busy with another request, so the server computed it again in another one.",
    "backend_moved": "The prefix is warm on another backend than the one that got this request.",
    "model_loaded": "The model had to be loaded, and its cache was empty then.",
    "backend_restarted": "The server was restarted, and its cache was empty then.",
    "engine_limit": "This model repeatedly reuses less than it holds, as sliding-window and hybrid models do.",
    "side_request": "A side request (a title, tags, a summary or memories) has a prompt of its own.",
    "unknown": "Less was reused than expected, and nothing that is known explains it.",
}
NOTHING_LOST = "Nothing was lost: what could be reused was reused."
NOT_REPORTED = "The server does not report what it reused, and the prompt goes on as the one before ended."

FIXES: Mapping[Reason, str] = {
    "first_seen": "Nothing to do: the next request with this beginning can reuse it.",
    "system_changed": "Find what changes in the system text and put it into the newest message instead.",
    "tools_changed": "Keep the same tools in every request of a session, in the same order.",
    "history_changed": "Let the client send earlier messages, tool results and reasoning as they were.",
    "params_changed": "Let the client keep its template options and reasoning effort for a whole session.",
    "window_slide": "Give the client a larger context, or let it drop half of its history at once and not one message a turn.",
    "evicted": "Give the server more room: slots (-np), prompt cache in memory (--cache-ram), OLLAMA_NUM_PARALLEL, KV blocks.",
    "slot_moved": "Send the requests of one session one after another, or give the server a larger prompt cache in memory.",
    "backend_moved": "Name one backend for this model under `models`.",
    "model_loaded": "Keep the model loaded: a longer keep-alive, and the same load-time options (num_ctx) from every client.",
    "backend_restarted": "Nothing to do: a restarted server begins with an empty cache.",
    "engine_limit": "Nothing to do in the gateway; on llama.cpp try --swa-full for a sliding-window model.",
    "side_request": "Switch off titles, tags and summaries in the client, or give them a small model of their own.",
    "unknown": "Look at the server's log for this request.",
}


def fix(reason: Reason | None, detector: str | None, mode: Mode, rules: Collection[str]) -> dict[str, str | None]:
    """text: what to do; config: the line of the configuration that does it, None if there is none. mode, rules: those in
    force."""
    if reason is None:
        return {"text": "Nothing to do.", "config": None}
    if detector is None or reason not in ("system_changed", "tools_changed"):
        return {"text": FIXES[reason], "config": None}
    if mode != "rewrite":
        return {"text": "Let the gateway move it out of the way.", "config": "canonical: { mode: rewrite }"}
    if detector not in rules:
        wanted = ", ".join((*rules, detector))
        return {"text": f"Let the rule `{detector}` move it out of the way.", "config": f"canonical: {{ rules: [{wanted}] }}"}
    return {"text": FIXES[reason], "config": None}


def sentence(reason: Reason | None, detector: str | None, *, reported: bool) -> str:
    if reason is None:
        return NOTHING_LOST if reported else NOT_REPORTED
    if detector is None:
        return SENTENCES[reason]
    return f"{SENTENCES[reason]} What stands there is a matter of the rule `{detector}`."
