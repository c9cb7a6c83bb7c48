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
    session id|sessionid|session|session uuid|session key|conversation id|conversation|conversation uuid|chat id|thread id
    request id
    requestid|req id|message id|messageid|msg id|trace id|traceid|span id|correlation id|run id|turn id|invocation id
    execution id
    job id|task run id|event id|transaction id|interaction id|nonce|random seed|random nonce|salt|uuid|guid|cache buster
    call id|parent message id|reply to id|in reply to|update id|x request id|x session id|traceparent|agent run id
    instance id|boot id|parent span|parent span id|parent id|call sid|attempt id|task id
    vorgangsnummer|sitzungsnummer|gesprächs id|vorgangs id|sitzungs id|sitzungsid|sitzungskennung|sitzung|anfrage id
    anfragekennung|nachrichten id|nachrichtenkennung|unterhaltungs id
    id de session|identifiant de session|id de la session|id de requête|identifiant de requête|id de message|id de conversation
    identifiant de conversation|session n°|id de sesión|identificador de sesión|id de la sesión|id de solicitud|id de mensaje
    id de conversación|identificador de solicitud|会话id|会话 id|会话标识|请求id|请求 id|请求编号|会话编号|消息编号|消息id
    消息 id|对话id|对话 id|追踪id
    会话编号|會話id
    セッションid|セッション id|リクエストid|リクエスト id|メッセージid|メッセージ id|会話id|会話 id|トレースid|トレース id
    """.replace("\n", "|").split("|")
    if label.strip()
)
SHORT = frozenset({"session", "conversation", "sitzung", "salt", "in reply to", "instance id", "random seed", "thread",
                   "trace", "span", "request",
                   "run", "message", "anfrage", "requête", "requete", "solicitud", "sesion", "zufallswert", "turn",
                   "chat"})  # fmt: skip
"""Labels that also introduce words: their value must look random."""

_WORD_ID = frozenset(
    {
        "id",
        "uuid",
        "guid",
        "ids",
        "kennung",
        "identifier",
        "identifiant",
        "identificador",
        "nummer",
        "key",
        "sid",
        "编号",
        "标识",
    }
)
_WORD_OF = frozenset({"session", "conversation", "chat", "thread", "request", "message", "trace", "span", "correlation",
                      "run", "turn", "invocation",
                      "execution", "job", "event", "transaction", "interaction", "sitzung", "sitzungs", "anfrage",
                      "nachricht", "nachrichten",
                      "unterhaltung", "requete", "fil", "echange", "sesion", "solicitud", "mensaje", "conversacion",
                      "hilo", "tour",
                      "task", "attempt", "query", "operation", "workflow", "msg", "req", "prompt", "build", "boot",
                      "call"})  # fmt: skip
_STOP = frozenset(
    {"the", "this", "of", "de", "la", "le", "du", "der", "des", "del", "el", "current", "aktuelle", "actual", "x"}
)

_ID = patterns.compile(r"^(-?[A-Za-z0-9][\w.:@/=+-]*|<[^\s<>@]+@[^\s<>]+>)")
_RANDOM = patterns.compile(
    r"(?i)^(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{8,}|\d{4,}|[a-z]{1,12}[_-][0-9a-z_-]{4,}"
    r"|[0-9HJKMNP-TV-Z]{26}|[0-9a-f-]{12,}"
    r"|[a-z0-9]{6,24})$"
)
_DIGIT = patterns.compile(r"\pN")
_ENDS = patterns.compile(
    r"^(?:`|\*\*|\"|')?\s*(?:[.。;,，\])）]?\s*$|[(（][^()（）\n]*[)）]\s*$|[.;]\s|。|\s[|·•]\s|,\s|[)\]）]|\s\w+=|\s[a-z_]+:\s)"
)
_SENTENCE = patterns.compile(
    r"^(?i:(?:the |your |this )?(?:current )?(?:session|conversation|request|message|trace|thread|run)(?:'s|’s)? id is"
    r"|(?:the )?id of (?:this|the(?: current)?) (?:session|conversation|request|message|run) is"
    r"|(?:die )?sitzungs-id (?:ist|lautet)"
    r"|l['’]identifiant de (?:la )?(?:session|conversation) est|el id de (?:la )?(?:sesión|conversación) es"
    r"|会话 ?id ?(?:是|为)|セッション ?id ?は)\s*[:：]?\s*`?"
)

HINTS = (
    pattern(LABELS | SHORT),
    r"(?i)(?:id|uuid|identifiant|identificador|kennung|sid|nummer|编号|标识)[^\d:：=|<>\"\n]{0,30}[\"'*_`)]*\s*[:：=|>]"
    r"|(?:zufallswert"
    r"|nonce|编号)\s*[:：]",
    _SENTENCE.pattern.replace("^", "", 1),
)


def cuts(document: Document, lines: list[int]) -> Iterator[Cut]:
    """Ids of something that is new with every session or request. `lines`: those that the hints hit."""
    for number in lines:
        for field in fields(document, number):
            if not _known(field.label):
                continue
            value = _value(document.plain[field.start : field.end], field.label in SHORT, field.closed)
            if value and not document.shown(field.line):
                yield Cut(field.start, field.start + len(value), NAME, field.name, f"{field.name}: {value}", value, stale=True)
        if document.prose(number) and (stated := list(_sentences(document, number))) and not document.shown(number):
            yield from stated


def _known(label: str) -> bool:
    """Whether a label names an id of something that is new with every session or request."""
    if label in LABELS or label in SHORT:
        return True
    words = [word for word in label.replace("'", " ").split() if word not in _STOP]
    return len(words) == 2 and any(word in _WORD_ID for word in words) and any(word in _WORD_OF for word in words)


def _value(text: str, short: bool, closed: bool) -> str:
    match = _ID.match(text)
    if not match:
        return ""
    value, rest = match[1].rstrip(".:"), text[match.end(1) :]
    looks = bool(_DIGIT.search(value)) and (not short or bool(_RANDOM.match(value)))
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
