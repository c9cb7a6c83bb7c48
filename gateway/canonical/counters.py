"""Rule `counters`: labelled numbers that count while the agent runs: token budgets, usage, uptimes, pids, telemetry. Pure.

Not limits and settings (`Max tokens: 4096`, `Temperature: 0.7`): they are the same in every request.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.canonical import patterns
from gateway.canonical.cuts import Cut
from gateway.canonical.fields import Field, fields, normal, pattern
from gateway.canonical.text import Document

NAME = "counters"

LABELS = frozenset(
    normal(label)
    for label in """
    token budget|tokens used|used tokens|tokens remaining|remaining tokens|tokens left|token usage|token count
    tokens so far|budget tokens
    context used|context usage|context window usage|context window used|context remaining|context left|remaining context|usage
    context fill|remaining budget|budget remaining|budget left|budget used|budget|cost so far|total cost|session cost
    spent|spent so far
    tokens|context|memory|charge cpu|charge processeur|memoire libre|contexte utilisé|signal|contexto usado|steps taken
    context tokens|prompt tokens so far|uptime|system uptime|pid|process id|ppid|cpu|cpu usage|cpu load|load|load average
    memory usage|ram usage|ram|ram used|used memory|free memory|available memory|memory free|memory used|disk usage
    free disk|free disk space
    disk free|disk space|available disk|gpu usage|gpu memory|gpu load|vram|vram used|battery|battery level|cpu temperature
    gpu temperature
    turn|turn number|turns|turns so far|iteration|iterations|message count|messages so far|step count|steps taken
    steps remaining
    turns remaining|requests remaining|rate limit remaining|elapsed|elapsed time|time elapsed|time remaining
    remaining time|attempt
    retries|retry count|tool calls so far|open files|running processes|queue length|unread messages|quota used|quota remaining
    token budget|tokenbudget|verbrauchte tokens|verbleibende tokens|restbudget|kontextnutzung|laufzeit|betriebszeit
    prozess id|auslastung
    cpu auslastung|speicherauslastung|freier speicher|budget de jetons|budget de tokens|jetons restants|jetons utilisés
    tokens restants
    tokens utilisés|utilisation du contexte|temps de fonctionnement|disponibilité|utilisation du cpu|mémoire libre
    mémoire utilisée
    presupuesto de tokens|tokens restantes|tokens usados|tokens utilizados|uso del contexto|uso de cpu|memoria libre
    memoria usada
    tiempo de actividad|令牌预算|token 预算|token预算|剩余令牌|剩余 token|已用 token|已用token|剩余token|剩余令牌数
    上下文已使用|上下文使用率|上下文使用|运行时间|进程id
    cpu 使用率
    cpu使用率|内存使用率|内存使用|磁盘使用率|トークン予算|残りトークン|残りトークン数|使用トークン|使用トークン数
    コンテキスト使用率|稼働時間|プロセスid|cpu使用率
    メモリ使用率|メモリ使用量
    """.replace("\n", "|").split("|")
    if label.strip()
)
VAGUE = frozenset({"usage", "budget", "tokens", "context", "turn", "turns", "load", "cpu", "ram", "attempt", "iteration",
                   "spent", "retries",
                   "elapsed", "disponibilité", "iterations", "vram", "disk space", "battery"})  # fmt: skip
"""Labels that also name limits and parts ("CPU: 8 cores", "Turns: 10"): their value must say that it counts."""

_UNIT = (
    r"(?:%|°C|[kKMGT][io]?[BbO]?\b|tokens?|jetons?|fichas|トークン|令牌|words?|bytes|cores?|days?|d\b|hours?|hrs?|h\b"
    r"|minutes?|min\b|m\b|seconds?|secs?|s\b|ms"
    r"|Tagen?|Stunden?|Std\b\.?|Minuten?|Sekunden?|jours?|heures?|días?|horas?|minutos?|天|小时|小時|分钟|分|秒|日|時間"
    r"|MHz|GHz|W\b|USD|EUR|dBm|[$€])"
)
_AMOUNT = rf"[~≈<>-]?\s?[$€£]?\d[\d,.'_]*\s?{_UNIT}?"
_JOIN = r"(?:[,:/ ]\s?(?:(?:of|out of|von|sur|de|und|and|et|y|/)\s?)?)?"
_VALUE = patterns.compile(
    rf"^({_AMOUNT}(?:{_JOIN}{_AMOUNT})*(?:\s(?:used|left|remaining|free|available|total|so far|consumed|verbraucht"
    rf"|übrig|restants?|utilisés?|usados?|restantes?))?"
    r"(?:\s?[(（;,]\s?[\d$€][^()（）\n]{0,60}(?:used|left|remaining|free|total|%|tokens|jetons|トークン|令牌)[)）]?)?)"
)
_COUNTS = patterns.compile(
    r"%|\d\s?/\s?\d|\bof\b|used|left|remaining|free|so far|\d\s?(?:[hms]\b|min|sec|Std|Tage)|\$|€|/|,\d{3}\b"
)
_ENDS = patterns.compile(
    r"^(?:`|\*\*)?\s*(?:[.。;,，\])）]?\s*$|[(（][^()（）\n]*[)）]\s*$|[.;]\s|。|\s[|·•]\s|,\s|[、]|です|[)\]）])"
)
_SUFFIX = patterns.compile(
    r"\s(?:today|so far|this (?:hour|session|turn|month|day)|usd|eur|mb|gb|kb|pct|percent|ms|seconds|bytes|heute|数|率)$|数$"
)
_LIVE = patterns.compile(
    r"^(?:open|active|pending|queued|running|unread|free|used|remaining|available|current|verbleibende[rs]?|offene"
    r"|freier|aktive|restante?s?)\s\S+$"
    r"|^(?:messages|requests|tokens|turns|steps|credits|calls|minutes) (?:left|remaining|used|this \w+|so far)$"
    r"|^(?:akkustand|ladestand|batterie|bateria|电量|バッテリー残量)(?:\s.*)?$|^(?:cpu|gpu|memory|disk) (?:utilization"
    r"|utilisation|temperature|load)$"
)
"""Labels that say themselves that their number changes."""
_READINGS = patterns.compile(r"^(?:current )?(?:readings|telemetry|sensors|messwerte|releves|lecturas|读数|計測値)$")
_SENTENCE = patterns.compile(
    r"^(?i:(?:you have|you(?:'ve| have) (?:already )?used|there are|du hast noch|il (?:te|vous) reste|te quedan|你还有"
    r"|你還有|残り)\s+(?:about |only |noch )?)"
    r"(\d[\d,.'_]*)(?i:\s+(?:tokens?|turns?|messages?|requests?|steps?|jetons?)\s+(?:left|remaining|so far"
    r"|of context left|übrig|restants?|restantes)|\s+(?:tokens? )?übrig)"
    rf"|^(?i:(?:so far,? )?(?:the |this )?(?:conversation|context|session|prompt) (?:has |now )?(?:uses?|used|fills?"
    rf"|filled) (?:about )?)({_AMOUNT})"
    rf"|^(?i:process )(\d+(?i: has been (?:up|running) for ){_AMOUNT}(?:{_JOIN}{_AMOUNT})*)"
    rf"|^(?:[\p{{Han}}\p{{Katakana}}ー]*(?:残量|稼働時間|使用率|使用量|トークン|电量|运行时间"
    rf"|使用率))は({_AMOUNT}(?:{_JOIN}{_AMOUNT})*)"
    rf"|^(?i:(?:la )?bater[ií]a (?:está )?al |(?:der )?akku (?:steht )?(?:bei|auf) |(?:la )?batterie est à )({_AMOUNT})"
)
_MORE = patterns.compile(r"^[、,，]\s*")

HINTS = (
    pattern(LABELS | {"readings", "telemetry", "sensors", "messwerte"}),
    r"(?i)(?:open|active|pending|queued|running|unread|free|used|remaining|available|verbleibende|offene|freier|left"
    r"|this|so far|akkustand|ladestand|batterie|"
    r"bater[ií]a|残量|电量|已使用|剩余|utilization|today|budget|steps?|turns?|tokens?)[^\d:：=|<>\"\n]{0,24}[\"'*_`)]*\s*[:：=|>]",
    _SENTENCE.pattern.replace("^(", "("),
)


def cuts(document: Document, lines: list[int]) -> Iterator[Cut]:
    """Numbers that count. `lines`: those that the hints hit."""
    for number in lines:
        for field in fields(document, number):
            value = _field_value(document, field)
            if value and not document.shown(field.line):
                yield Cut(field.start, field.start + len(value), NAME, field.name, f"{field.name}: {value}", value, stale=True)
        if document.prose(number) and (stated := list(_sentences(document, number))) and not document.shown(number):
            yield from stated


def _field_value(document: Document, field: Field) -> str:
    """The value of a label that this rule knows, "" if it is none."""
    text = document.text[field.start : field.end]
    plain = str(_SUFFIX.sub("", field.label))
    for label in (field.label, plain):
        if label in LABELS:
            return _value(text, label in VAGUE, field.closed)
    if _READINGS.match(field.label):
        return text.rstrip(" .") if any(letter.isdigit() for letter in text) else ""
    return _value(text, False, field.closed) if _LIVE.match(field.label) or _LIVE.match(plain) else ""


def _value(text: str, vague: bool, closed: bool) -> str:
    match = _VALUE.match(text)
    if not match:
        return ""
    value, rest = match[1].rstrip(" ,;"), text[len(match[1].rstrip(" ,;")) :]
    if vague and not _COUNTS.search(value):
        return ""
    return value if _ENDS.match(rest) or (closed and not rest.strip()) else ""


def _sentences(document: Document, number: int) -> Iterator[Cut]:
    line, base = document.lines[number], document.starts[number]
    for begin in document.beginnings(number):
        at = begin
        while match := _SENTENCE.match(line[at:]):
            group = match.lastindex
            start, end = at + match.start(group), at + match.end(group)
            yield Cut(base + start, base + end, NAME, "Count", line[at : at + match.end()], line[start:end], stale=True)
            at = end
            more = _MORE.match(line[at:])
            at += more.end() if more else 0
