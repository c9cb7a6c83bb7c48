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
    tokens so far|budget tokens|tokens consumed|total tokens used
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
    cpu auslastung|cpu last|systemlast|arbeitsspeicher|speicherauslastung|freier speicher|budget de jetons
    budget de tokens|jetons restants|jetons utilisés
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
    wi fi|wifi|signal strength|rssi|weather|current weather|outside temperature|outdoor temperature|indoor temperature
    room temperature|current temperature|humidity|current humidity|outdoor humidity|indoor humidity|wind|wind speed
    threads|processes|rate limit|quota|token limit|step|round|schritt|runde|zug|étape|tour|paso|turno|iteración|itération
    iterations left|steps left|turns left|iterations remaining|verbrauchte jetons|tokens verbraucht|tokens übrig
    außentemperatur|innentemperatur|raumtemperatur|luftfeuchtigkeit|wetter|akku|akkustand|batterie|batería
    température actuelle|température extérieure|température intérieure|humidité|météo
    temperatura actual|temperatura exterior|temperatura interior|humedad|memoria|tiempo atmosférico
    已用令牌|已使用令牌|令牌使用量|剩余电量|电量|轮次|回合|当前温度|室外温度|室内温度|湿度|天气
    使用済みトークン|ターン|ステップ|バッテリー|現在の気温|室温|湿度|天気
    """.replace("\n", "|").split("|")
    if label.strip()
)
VAGUE = frozenset({"usage", "budget", "tokens", "context", "turn", "turns", "load", "cpu", "ram", "attempt", "iteration",
                   "spent", "retries", "threads", "processes", "step", "round", "schritt", "runde", "zug", "etape",
                   "tour", "paso", "turno", "iteracion", "arbeitsspeicher", "akku", "batterie", "bateria",
                   "轮次", "回合", "电量", "ターン", "ステップ", "バッテリー",
                   "elapsed", "disponibilité", "iterations", "vram", "disk space", "battery"})  # fmt: skip
"""Labels that also name limits and parts ("CPU: 8 cores", "Turns: 10"): their value must say that it counts."""

LIMITS = frozenset({"rate limit", "quota", "token limit"})
"""Labels of limits: only what is left of one, or used, counts."""

_UNIT = (
    r"(?:%|°[CF]|K\b|km/h|m/s|hPa|[kKMGT][io]?[BbO]?\b|tokens?|jetons?|fichas|トークン|令牌|words?|bytes|cores?|días?|days?|d\b"
    r"|hours?|hrs?|h\b"
    r"|minutes?|min\b|m\b|seconds?|secs?|s\b|ms"
    r"|Tagen?|Stunden?|Std\b\.?|Minuten?|Sekunden?|jours?|heures?|horas?|minutos?|天|小时|小時|分钟|分|秒|日|時間"
    r"|MHz|GHz|W\b|USD|EUR|dBm|requests?|messages?|calls?|turns?|steps?|files?|Anfragen|solicitudes|[$€])"
)
_NUMBER = r"(?:\d{1,3}(?: \d{3})+|\d[\d,.'_]*)"
_AMOUNT = rf"[~≈<>-]?\s?[$€£#]?{_NUMBER}(?:\s?{_UNIT})?"
_JOIN = r"(?:[,:/ ]\s?(?:(?:of|out of|von|sur|de|und|and|et|y|/)\s?)?)?"
_SKY = "(?:rain|drizzle|showers|snow|fog|mist|clouds?|cloudy|overcast|clear|sunny|windy|storm|thunderstorm|fair)"
_SAID = r"(?:\s\((?:updated|as of|measured|at|Stand) [^()\n]{3,30}\))?"
_VALUE = patterns.compile(
    rf"^({_AMOUNT}(?:{_JOIN}{_AMOUNT})*(?:\s(?:used|left|remaining|free|available|total|so far|consumed|full|sent|open"
    rf"|waiting|pending|queued|running|active|verbraucht"
    rf"|übrig|restants?|utilisés?|usados?|restantes?)(?:\s(?:this|per|in this|today)(?:\s\pL{{3,10}})?)?)?"
    r"(?:,\s(?:charging|discharging|not charging|full|plugged in|unplugged|lädt|entlädt|en charge|cargando|充电中|充電中))?"
    rf"(?:,\s(?:light |heavy |partly |mostly )?{_SKY})?"
    rf"(?:,\s\pL{{3,12}}\s[~≈-]?\d[\d.,]*\s?{_UNIT})*{_SAID}"
    r"(?:\s?[(（;,]\s?[\d$€][^()（）\n]{0,60}(?:used|left|remaining|free|total|%|tokens|jetons|トークン|令牌)[)）]?)?)"
)
_COUNTS = patterns.compile(
    r"%|\d\s?/\s?\d|\bof\b|used|left|remaining|free|so far|\d\s?(?:[hms]\b|min|sec|Std|Tage)|\$|€|/|,\d{3}\b|\d:\d\d|充"
    r"|charging|running|active"
)
_LEFT = patterns.compile(r"left|remaining|used|übrig|verbraucht|restant|utilisé|usad[oa]s|剩余|残り")
_ENDS = patterns.compile(
    r"^(?:`|\*\*|\"|')?\s*(?:[.。;,，\])）]?\s*$|[(（][^()（）\n]*[)）]\s*$|[.;]\s|。|\s[|·•]\s|,\s(?:\pL+ [~≈-]?\d"
    r"|[\pL ]{1,30}[:：=])|[、]|です|[)\]）])"
)
_SUFFIX = patterns.compile(
    r"\s(?:today|so far|this (?:hour|session|turn|month|day)|usd|eur|mb|gb|kb|pct|percent|ms|s|sec|seconds|bytes"
    r"|heute|数|率)$|数$"
)
_PERCENT = patterns.compile(r"\s(?:pct|percent|s|seconds)$")
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
    r"|^(?i:(?:the )?context(?: window)?(?: is)?(?: at| now)? )(\d[\d.,]*\s?%)(?i:\s(?:full|used))"
    rf"|^(?i:you(?:'ve|’ve| have)(?: already)? used (?:about )?)({_NUMBER}(?i: (?:tokens )?(?:out )?of (?:your "
    rf"|the )?){_NUMBER}"
    rf"(?i: tokens)?(?:[;,] {_NUMBER} (?i:(?:tokens )?(?:remain|remaining|left|are left)))?)"
    rf"|^(?i:(?:(?:the |die )?(?:uptime|betriebszeit) (?:is|of|ist|von) |(?:el )?tiempo de actividad (?:es )?de "
    rf"|temps de fonctionnement (?:est )?de ))({_AMOUNT}(?:{_JOIN}{_AMOUNT})*)"
)
_PROGRESS = patterns.compile(
    r"^(?i:current )?(?i:step|turn|iteration|round|attempt|loop|message|schritt|runde|étape|tour|turno|paso|iteración)"
    r"\s(#?\d{1,6}(?:\s?/\s?|\s(?i:of|von|sur|de)\s)\d{1,6})(?:\s*[)\].。]?\s*$|[.;]\s)"
)
"""A line that says how far a loop is. Several of a kind in one text are the chapters of a manual."""
_VERB = patterns.compile(
    r"^(?:です|を|で|\s?of (?:the |your |its )?(?:\pL+ )?(?:context|budget|window|limit|quota)\b|\s?(?:übrig|remaining|left)"
    r"|[！!?？])"
)
_MORE = patterns.compile(r"^(?:[、,，]\s*|,?\s(?:and|und|et|y)\s)")

HINTS = (
    pattern(LABELS | {"readings", "telemetry", "sensors", "messwerte"}),
    r"(?i)(?:open|active|pending|queued|running|unread|free|used|remaining|available|verbleibende|offene|freier|left"
    r"|this|so far|akkustand|ladestand|batterie|"
    r"bater[ií]a|残量|电量|已使用|剩余|utilization|today|budget|steps?|turns?|tokens?)[^\d:：=|<>\"\n]{0,24}[\"'*_`)]*\s*[:：=|>]",
    _SENTENCE.pattern.replace("^(", "("),
    r"(?i)[a-z]_(?:pct|percent|s|sec|seconds|ms|[kmg]b|bytes|usd)[\"'`]?\s*[:=]",
    r"(?i)(?:step|turn|iteration|round|attempt|loop|message|schritt|runde|étape|tour|turno|paso|iteración)\s#?\d",
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
    yield from _progress(document, lines)


def _field_value(document: Document, field: Field) -> str:
    """The value of a label that this rule knows, "" if it is none."""
    text = document.plain[field.start : field.end]
    plain = str(_SUFFIX.sub("", field.label))
    for label in (field.label, plain):
        if label in LABELS:
            value = _value(text, label in VAGUE and not _PERCENT.search(field.label), field.closed)
            return value if label not in LIMITS or _LEFT.search(value) else ""
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
            rest = line[at + match.end() :]
            if rest and not (_ENDS.match(rest) or _MORE.match(rest) or _VERB.match(rest)):
                return
            yield Cut(base + start, base + end, NAME, "Count", line[at : at + match.end()], line[start:end], stale=True)
            at = end
            more = _MORE.match(line[at:])
            at += more.end() if more else 0


def _progress(document: Document, lines: list[int]) -> Iterator[Cut]:
    """ "Step 6 of 20", if the text says it once."""
    found: list[Cut] = []
    for number in lines:
        if not document.prose(number) or document.heading(number):
            continue
        line, base = document.lines[number], document.starts[number]
        for begin in document.beginnings(number):
            match = _PROGRESS.match(line[begin:])
            if match and not document.shown(number):
                start, end = begin + match.start(1), begin + match.end(1)
                found.append(Cut(base + start, base + end, NAME, "Count", line[begin:end], line[start:end], stale=True))
    if len(found) == 1:
        yield from found
