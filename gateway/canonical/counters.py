"""Rule `counters`: labelled numbers that count while the agent runs: token budgets, usage, uptimes, pids, telemetry. Pure.

Not limits and settings (`Max tokens: 4096`, `Temperature: 0.7`): they are the same in every request.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.canonical import patterns
from gateway.canonical.cuts import Cut
from gateway.canonical.fields import fields, normal, pattern
from gateway.canonical.text import Document

NAME = "counters"

LABELS = frozenset(
    normal(label)
    for label in """
    token budget|tokens used|used tokens|tokens remaining|remaining tokens|tokens left|token usage|token count|tokens so far|budget tokens
    context used|context usage|context window usage|context window used|context remaining|context left|remaining context|usage
    context fill|remaining budget|budget remaining|budget left|budget used|budget|cost so far|total cost|session cost|spent|spent so far
    tokens|context|context tokens|prompt tokens so far|uptime|system uptime|pid|process id|ppid|cpu|cpu usage|cpu load|load|load average
    memory usage|ram usage|ram|ram used|used memory|free memory|available memory|memory free|memory used|disk usage|free disk|free disk space
    disk free|disk space|available disk|gpu usage|gpu memory|gpu load|vram|vram used|battery|battery level|cpu temperature|gpu temperature
    turn|turn number|turns|turns so far|iteration|iterations|message count|messages so far|step count|steps taken|steps remaining
    turns remaining|requests remaining|rate limit remaining|elapsed|elapsed time|time elapsed|time remaining|remaining time|attempt
    retries|retry count|tool calls so far|open files|running processes|queue length|unread messages|quota used|quota remaining
    token budget|tokenbudget|verbrauchte tokens|verbleibende tokens|restbudget|kontextnutzung|laufzeit|betriebszeit|prozess id|auslastung
    cpu auslastung|speicherauslastung|freier speicher|budget de jetons|budget de tokens|jetons restants|jetons utilisés|tokens restants
    tokens utilisés|utilisation du contexte|temps de fonctionnement|disponibilité|utilisation du cpu|mémoire libre|mémoire utilisée
    presupuesto de tokens|tokens restantes|tokens usados|tokens utilizados|uso del contexto|uso de cpu|memoria libre|memoria usada
    tiempo de actividad|令牌预算|token 预算|token预算|剩余令牌|剩余 token|已用 token|已用token|剩余token|上下文使用率|上下文使用|运行时间|进程id|cpu 使用率
    cpu使用率|内存使用率|内存使用|磁盘使用率|トークン予算|残りトークン|残りトークン数|使用トークン|使用トークン数|コンテキスト使用率|稼働時間|プロセスid|cpu使用率
    メモリ使用率|メモリ使用量
    """.replace("\n", "|").split("|")
    if label.strip()
)
VAGUE = frozenset({"usage", "budget", "tokens", "context", "turn", "turns", "load", "cpu", "ram", "attempt", "iteration", "spent", "retries",
                   "elapsed", "disponibilité", "iterations", "vram", "disk space", "battery"})  # fmt: skip
"""Labels that also name limits and parts ("CPU: 8 cores", "Turns: 10"): their value must say that it counts."""

_AMOUNT = r"[~≈<>]?\s?[$€£]?\d[\d,.'_ ]*\s?(?:%|°C|[kKMGT]i?[Bb]?\b|tokens?|jetons?|トークン|令牌|words?|bytes|cores?|days?|d\b|hours?|hrs?|h\b|minutes?|min\b|m\b|seconds?|secs?|s\b|ms|MHz|GHz|W|USD|EUR|[$€])?"
_VALUE = patterns.compile(
    rf"^({_AMOUNT}(?:[,:/ ]\s?(?:(?:of|out of|von|sur|de|/)\s?)?{_AMOUNT})*(?:\s(?:used|left|remaining|free|available|total|so far|consumed|verbraucht|übrig|restants?|utilisés?|usados?|restantes?))?"
    r"(?:\s?[(（;,]\s?[\d$€][^()（）\n]{0,40}(?:used|left|remaining|free|total|%|tokens)[^()（）\n]{0,12}[)）]?)?)"
)
_COUNTS = patterns.compile(r"%|\d\s?/\s?\d|\bof\b|used|left|remaining|free|so far|\d\s?(?:[hms]\b|min|sec)|\$|€|/|,\d{3}\b")
_ENDS = patterns.compile(r"^(?:`|\*\*)?\s*(?:[.。;,，]?\s*$|[(（][^()（）\n]*[)）]\s*$|[.;]\s|。|\s[|·•]\s|,\s)")
_SENTENCE = patterns.compile(
    r"^(?i:(?:you have|you(?:'ve| have) (?:already )?used|there are|du hast noch|il (?:te|vous) reste|te quedan|你还有|你還有|残り)\s+(?:about |only |noch )?)"
    r"(\d[\d,.'_]*)(?i:\s+(?:tokens?|turns?|messages?|requests?|steps?|jetons?)\s+(?:left|remaining|so far|of context left|übrig|restants?|restantes)|\s+(?:tokens? )?übrig)"
)

HINTS = (pattern(LABELS), _SENTENCE.pattern.replace("^", "", 1))


def cuts(document: Document, lines: list[int]) -> Iterator[Cut]:
    """Numbers that count. `lines`: those that the hints hit."""
    for number in lines:
        for field in fields(document, number):
            if field.label not in LABELS or document.shown(field.line):
                continue
            value = _value(document.text[field.start : field.end], field.label in VAGUE, field.closed)
            if value:
                yield Cut(field.start, field.start + len(value), NAME, field.name, f"{field.name}: {value}", value, stale=True)
        if document.prose(number) and not document.shown(number):
            yield from _sentences(document, number)


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
        match = _SENTENCE.match(line[begin:])
        if match:
            start, end = base + begin + match.start(1), base + begin + match.end(1)
            yield Cut(start, end, NAME, "Count", match[0], match[1], stale=True)
