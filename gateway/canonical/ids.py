"""Rule `ids`: labelled ids of one session, request, message or trace, and random nonces. Pure.

Ids that say *who* (user, sender, channel, account) are not among them: they are the same in every request.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.canonical import patterns
from gateway.canonical.cuts import Cut
from gateway.canonical.fields import fields, normal, pattern
from gateway.canonical.text import Document

NAME = "ids"

LABELS = frozenset(
    normal(label)
    for label in """
    session id|sessionid|session|session uuid|session key|conversation id|conversation|conversation uuid|chat id|thread id|request id
    requestid|req id|message id|messageid|msg id|trace id|traceid|span id|correlation id|run id|turn id|invocation id|execution id
    job id|task run id|event id|transaction id|interaction id|nonce|random seed|random nonce|salt|uuid|guid|cache buster
    call id|parent message id|reply to id|in reply to|update id|x request id|x session id|traceparent|agent run id|instance id|boot id
    sitzungs id|sitzungsid|sitzungskennung|sitzung|anfrage id|anfragekennung|nachrichten id|nachrichtenkennung|unterhaltungs id
    id de session|identifiant de session|id de la session|id de requête|identifiant de requête|id de message|id de conversation
    identifiant de conversation|session n°|id de sesión|identificador de sesión|id de la sesión|id de solicitud|id de mensaje
    id de conversación|identificador de solicitud|会话id|会话 id|会话标识|请求id|请求 id|消息id|消息 id|对话id|对话 id|追踪id|会话编号|會話id
    セッションid|セッション id|リクエストid|リクエスト id|メッセージid|メッセージ id|会話id|会話 id|トレースid|トレース id
    """.replace("\n", "|").split("|")
    if label.strip()
)
SHORT = frozenset({"session", "conversation", "sitzung", "salt", "in reply to", "instance id", "random seed"})
"""Labels that also introduce words: their value must look random."""

_ID = patterns.compile(r"^([\pL\pN][\pL\pN_.:@/=+-]*)")
_RANDOM = patterns.compile(
    r"(?i)^(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{8,}|\d{4,}|[a-z]{2,12}[_-][0-9a-z_-]{6,}|[0-9A-HJKMNP-TV-Z]{26})$"
)
_DIGIT = patterns.compile(r"\pN")
_ENDS = patterns.compile(r"^(?:`|\*\*|\"|')?\s*(?:[.。;,，]?\s*$|[(（][^()（）\n]*[)）]\s*$|[.;]\s|。|\s[|·•]\s|,\s)")
_SENTENCE = patterns.compile(
    r"^(?i:(?:the |your |this )?(?:current )?(?:session|conversation|request|message|trace|thread)(?:'s|’s)? id is|(?:die )?sitzungs-id (?:ist|lautet)"
    r"|l['’]identifiant de (?:la )?session est|el id de (?:la )?sesión es|会话 ?id ?(?:是|为)|セッション ?id ?は)\s*[:：]?\s*`?"
)

HINTS = (pattern(LABELS), _SENTENCE.pattern.replace("^", "", 1))


def cuts(document: Document, lines: list[int]) -> Iterator[Cut]:
    """Ids of something that is new with every session or request. `lines`: those that the hints hit."""
    for number in lines:
        for field in fields(document, number):
            if field.label not in LABELS or document.shown(field.line):
                continue
            value = _value(document.text[field.start : field.end], field.label in SHORT, field.closed)
            if value:
                yield Cut(field.start, field.start + len(value), NAME, field.name, f"{field.name}: {value}", value, stale=True)
        if document.prose(number) and not document.shown(number):
            yield from _sentences(document, number)


def _value(text: str, short: bool, closed: bool) -> str:
    match = _ID.match(text)
    if not match:
        return ""
    value, rest = match[1].rstrip(".:"), text[match.end(1) :]
    looks = bool(_RANDOM.match(value)) if short else bool(_DIGIT.search(value))
    return value if looks and (_ENDS.match(rest) or (closed and not rest.strip())) else ""


def _sentences(document: Document, number: int) -> Iterator[Cut]:
    line, base = document.lines[number], document.starts[number]
    for begin in document.beginnings(number):
        intro = _SENTENCE.match(line[begin:])
        value = _value(line[begin + intro.end() :], False, False) if intro else ""
        if intro and value:
            start = begin + intro.end()
            name = intro[0].strip(" :：`")
            yield Cut(
                base + start, base + start + len(value), NAME, name, f"{intro[0]}{value}".replace("`", ""), value, stale=True
            )
