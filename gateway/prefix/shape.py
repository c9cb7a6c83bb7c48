"""What a request looks like: a turn of a conversation, or a side request (a title, tags, a summary, memories); and which
session it belongs to. Pure.

Side requests are recognised by their shape, as clients send them beside a conversation: no tools, and either words that name
such a task at the start, or a client whose conversations have tools or a longer system text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import re2

from gateway.canonical import digests
from gateway.dialects.prompt import Prompt
from gateway.prefix.chain import Chain

SESSION_HEADERS = ("x-claude-code-session-id", "session-id", "x-session-id", "x-session-affinity", "x-openwebui-chat-id")
"""Headers in which clients name their session."""

SHORT_ANSWER = 512
"""Tokens that a side request asks for at most, if it says so."""

HEAD = 600
"""Characters of a text in which a task is named."""

MESSAGES = 3
"""Messages that a side request has at most: what it works on is quoted in one of them."""

_TASK = re2.compile(
    r"(?i)###\s*task\b|\b(?:titles?|tags?|summar(?:y|ies|i[sz]e[sd]?|i[sz]ing)|follow-?up questions?|search quer(?:y|ies)"
    r"|name (?:this|the) (?:talk|chat|conversation|thread|session)"
    r"|(?:extract|consolidat)\w*\s(?:\S+\s){0,4}(?:memor(?:y|ies)|facts?)|memory extraction|autocomplet\w+)\b"
    r"|\b(?:titel|zusammenfass\w+|schlagw[oö]rter|titre|r[ée]sum\w+|t[ií]tulo|etiquetas)\b|标题|标签|总结|タイトル|要約"
)

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def kind(prompt: Prompt, body: Mapping[str, Any], main_head: Callable[[], int]) -> Literal["main", "side"]:
    """main_head: tells the characters of tools and system text that this client's conversations have, 0 if none is known."""
    if prompt.tools is not None or not prompt.messages or len(prompt.messages) > MESSAGES:
        return "main"
    if any(message.role in ("tool", "other") for message in prompt.messages):
        return "main"
    limit = next((body[name] for name in _LIMITS if isinstance(body.get(name), int)), None)
    if limit is not None and limit > 8 * SHORT_ANSWER:
        return "main"
    texts = [text.text for text in (*prompt.system[:1], *prompt.messages[-1].texts[:1])]
    if any(_TASK.search(text[:HEAD]) for text in texts) and (main_head() or _names_task(texts)):
        return "side"
    if limit is None or limit > SHORT_ANSWER or len(prompt.messages) != 1:
        return "main"
    own_head, head = sum(len(text.text) for text in prompt.system), main_head()
    return "side" if head > 4 * own_head and head > 500 else "main"


def _names_task(texts: list[str]) -> bool:
    """Whether the words are beyond doubt even if nothing else of the client is known."""
    return any("### task" in text[:HEAD].lower() for text in texts)


def named_session(headers: Mapping[str, str], body: Mapping[str, Any], names: Sequence[str] = SESSION_HEADERS) -> str:
    """What the client calls its session, "" if it does not say. names: of the headers that may say it."""
    for name in names:
        if value := headers.get(name):
            return value
    if isinstance(key := body.get("prompt_cache_key"), str) and key:
        return key
    metadata = body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    return user if isinstance(user, str) else ""


def session(secret: bytes, named: str, chain: Chain) -> str:
    """A short digest of the session: what the client calls it, else its first message; always with what comes before that,
    because a title is asked for under the session of its conversation."""
    heads = len(chain.kinds)
    first = chain.start if named or heads == len(chain.ends) else chain.digests[chain.ends[heads] - 1]
    return digests.digest(secret, b"session", digests.encode(named), first).hex()[:12]
