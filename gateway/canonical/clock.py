"""Rule `clock`: statements of the current date and time. Pure.

A statement says what time it is *now*: a label that can mean nothing else (`Current time:`), a bare label with nothing but a
moment behind it (`Date:`), a sentence that begins as such sentences do ("Today is"), or a line that is a moment and stands
alone. Not dates in prose, not what a text shows as an example, not ranges.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.canonical import patterns
from gateway.canonical.cuts import Cut
from gateway.canonical.fields import Field, fields, normal, pattern
from gateway.canonical.moments import (
    EPOCH,
    MONTH,
    RANGE,
    WEEKDAY,
    has_date,
    has_day,
    has_time,
    is_cut_off,
    is_moment,
    moment_at,
)
from gateway.canonical.text import Document

NAME = "clock"

PRESENT = frozenset(
    normal(label)
    for label in """
    current date|current time|current date and time|current time and date|current datetime|current date time|current timestamp
    current day|current day and time|current local time|current utc time|current year|current month|today|today's date
    todays date
    today date|date today|now|time now|date now|right now|local time|local date|local datetime|local date and time|system time
    system date|system clock|utc time|utc now|time utc|present time|present date|current weekday|current day of week|day of week
    it is now|present day|server time|user local time|user time|user's local time|current time of day|current hour
    current minute
    current week|calendar week|iso week|week number|kalenderwoche|aktuelle kalenderwoche|semaine actuelle|semana actual
    market time|device time|client time|house time|household time|wall clock|wall time|clock time|local time for the user
    当前周|当前北京时间|北京时间|現在の週|ただいまの時刻|日本時間
    session date|session start|session start time|session started|session started at|conversation started|conversation start
    conversation date|message time|message timestamp|request time|request timestamp
    heute|aktuelles datum|aktuelle zeit|aktuelle uhrzeit|aktuelles datum und uhrzeit|aktueller zeitpunkt|heutiges datum|jetzt
    datum heute|aktueller tag|ortszeit|lokale zeit|datum und uhrzeit|aktueller wochentag|systemzeit|datum und zeit
    aujourd'hui|date actuelle|date courante|date du jour|heure actuelle|date et heure actuelles|date et heure courantes
    date et heure actuelle|maintenant
    heure locale|date et heure|jour actuel|horodatage actuel|heure courante
    hoy|fecha actual|fecha de hoy|hora actual|fecha y hora actuales|fecha y hora actual|ahora|hora local|fecha y hora|día actual
    当前时间|当前日期|当前日期和时间|当前日期时间|当前的时间|现在时间|现在是|今天|今天日期|今天的日期|今日日期|目前时间
    系统时间|本地时间|现在
    當前時間|當前日期|現在時間|目前時間|今天的日期是|系統時間|当前日期与时间|日期和时间|当前时刻|当前星期
    現在時刻|現在日時|現在の日時|現在の時刻|現在の日付|現在の時間|今日の日付|本日の日付|今日|本日|現在|日時|システム時刻
    現地時間
    """.replace("\n", "|").split("|")
    if label.strip()
)
"""Labels that say "now": what follows the moment may be anything."""

BARE = frozenset(
    normal(label)
    for label in """
    date|time|day|clock|datetime|datum uhrzeit|date heure|fecha hora|fecha hora actual|week|month|timestamp ms
    date and time|date time|date/time|timestamp|weekday|minute|hour|utc|epoch|unix time|unix timestamp
    as of|datum|uhrzeit|zeit|tag|wochentag|zeitstempel|stand|date|heure|jour|horodatage|en date du|fecha|hora|día|dia
    marca de tiempo
    日期|时间|時間|星期|时间戳|日付|時刻|曜日|タイムスタンプ
    """.replace("\n", "|").split("|")
    if label.strip()
)
"""Labels that also stand in letters, meetings and heads of documents: nothing but the moment may follow."""

STAMPS = frozenset(
    normal(label)
    for label in """
    built|generated|generated at|generated on|rendered|rendered at|compiled|compiled at|refreshed|refreshed at|updated
    updated at
    last updated|last update|last refreshed|synced|synced at|last synced|fetched|fetched at|retrieved at|snapshot|snapshot time
    snapshot taken|created at|started|started at|prepared at|loaded at|assembled|assembled at|prompt built|prompt generated
    erstellt|erstellt am|erzeugt|aktualisiert|zuletzt aktualisiert|généré|généré le|généré à|mis à jour|dernière mise à jour
    généré|créé le|generado|generado el|actualizado|última actualización|creado|生成时间|更新时间|构建时间|最后更新|生成日時
    更新日時|最終更新
    """.replace("\n", "|").split("|")
    if label.strip()
)
"""Labels of when a text was made: the present only if they name a time of day; a date alone is that of a document."""

_NOW = patterns.compile(
    r"^(?:current|present|local|aktuelle[rs]?|momentane[rs]?|当前|目前|现在|現在の?|當前|ただいまの)\s?(.+)$"
    r"|^(.+?)\s(?:now|right now|jetzt|actuel(?:le)?s?|actual(?:es)?)$"
)
_SUFFIX = patterns.compile(
    r"\s(?:for|of) (?:the |this )?user$|\sat (?:the )?(?:start|beginning) of (?:the |this )?\pL+$|\s(?:utc|gmt|ms|iso"
    r"|local|seconds)$|\(.*$"
)
_PLACE = r"(?: (?:in|at|for) [\p{Lu}][\w/.-]*(?:[ ,/]{1,2}[\p{Lu}][\w/.-]*){0,3})?"
_MADE = "generated|rendered|built|compiled|prepared|assembled|created|updated|refreshed"
_SENTENCES = (
    r"(?:(?:please )?note(?: that|:)? |for (?:your )?(?:reference|context|information)[,:] |fyi[,:] |remember(?: that|:) "
    r"|keep in mind(?: that|:) |be aware(?: that|:) |context: |system note: |info: )?(?:and |also,? )?"
    rf"(?:today(?:'s|’s)?(?: date| day)?(?: {_PLACE})? is(?: now)?(?: currently)?"
    rf"|(?:the |your |my )?(?:current|present|local|system|today(?:'s|’s)|user(?:'s|’s)?|server)(?: local| system| utc)? "
    rf"(?:date|time|datetime|day|weekday|date and time|date/time|date & time|time and date|timestamp|day of the week){_PLACE}"
    r"(?: \([^()]{1,30}\))? (?:is|reads|shows)(?: now| currently)?"
    r"|(?:the )?(?:local |current )?(?:date|time|date and time) for (?:the|this) user is(?: now| currently)?"
    rf"|(?:last )?(?:{_MADE}) (?:at|on)"
    r"|the (?:date|time|day)(?: and time)?(?: today| now| right now)? is(?: now| currently)?|the (?:clock"
    r"|time) (?:now )?(?:reads|shows|says)"
    r"|(?:right )?now(?:,)? it(?: is|'s|’s)|it(?: is|'s|’s) (?:now|currently|presently)|currently,? it(?: is|'s|’s)"
    r"|now is|time now is"
    r"|as of (?:now|today),?|(?:the )?current (?:month|year) is"
    rf"|(?:this |the )?(?:(?:system )?prompt|message|context|briefing|snapshot) (?:was )?(?:{_MADE})(?: at| on)?"
    r"|wir schreiben (?:heute )?(?:den )?|(?:ce |le )?(?:prompt|message) généré (?:le|à)|(?:prompt"
    r"|mensaje) generado (?:el|a las)"
    r"|(?:this |the )?(?:conversation|session|chat) (?:was )?(?:started|began|begins|starts) (?:on|at)"
    r"|heute ist(?: der)?|heute haben wir(?: den)?|(?:das |die )?(?:heutige|aktuelle)s? (?:datum|uhrzeit|zeit"
    r"|tag) (?:ist|lautet)(?: jetzt)?(?: der)?"
    r"|es ist (?:jetzt|gerade|nun|derzeit)|es ist (?:heute )?(?:der)|jetzt ist es|wir haben (?:heute |jetzt )?(?:den)?"
    r"|(?:aujourd['’]hui,? )?(?:nous sommes|on est|c['’]est)(?: le| aujourd['’]hui le| aujourd['’]hui)?"
    r"|il est(?: actuellement| maintenant)?"
    r"|la date (?:actuelle|du jour|d['’]aujourd['’]hui|courante)(?: est)(?: le)?|l['’]heure (?:actuelle|courante"
    r"|locale)(?: est)(?: de)?"
    r"|hoy es(?: el)?|hoy estamos a|estamos a|(?:la )?(?:fecha|hora)(?: y hora)? (?:(?:actual(?:es)?|de hoy"
    r"|local) )?(?:es|son)(?: el| las| la)?"
    r"|(?:ahora )?son las|ahora es(?: la)?|es la"
    r"|(?:今天|今日)(?:的日期)?是|(?:现在|現在|目前|当前|當前)(?:的)?(?:时间|時間|日期|时刻)?(?:是|为"
    r"|為)(?:[\p{Han}]{2}(?:时间|時間))?"
    r"|(?:今日|本日|現在|ただいま|只今|いま|今)(?:の)?(?:日付|日時|時刻|時間)?は[、,]?)"
)
_SENTENCE = patterns.compile(rf"^(?i:{_SENTENCES})\s*[:：]?\s*(?:\*\*|`|[(（])?")
_BRIEF = patterns.compile(r"^(?i:it(?: is|'s|’s)|es ist|il est|as of|stand|nous sommes|now|today),?\s+")
_NOT_NOW = patterns.compile(
    r"(?i)\b(?:scenario|stor(?:y|ies)|hypothetical|fiction(?:al)?|simulat\w+|role-?play|examples?|samples?|tests?"
    r"|assume|pretend|"
    r"suppose|deadline|cut-?off|always|geschichte|beispiele?|szenario|histoire|exemples?|ejemplos?|historia)\b|故事"
    r"|例子|示例|物語|例です"
)
_ENDS = patterns.compile(
    r"^\s*(?:\*\*|__|`|\"|')?\s*(?:[.。;；,，!）)\]】]?\s*(?:です|だ|である)?[.。]?\s*$|[.。;；]\s|。|\s[|·•]\s"
    r"|\s*\([^()\n]*\)\s*[.。]?\s*$|\s+\w+=)"
)
_GOES_ON = patterns.compile(r"^\s*(?:\*\*|__|`|\"|')?\s*(?:$|[.。;；,，!(（)）\]】|·•–—-]|です|だ|である|\w+=)")
_WEEK = patterns.compile(r"^(?:(?i:KW|CW|W|week|semaine|semana|第)\s?)?\d{1,2}\s?(?:周|週)?(?:[ /,]\s?\d{4})?$")
_WEEKS = patterns.compile(r"week|kalenderwoche|semaine|semana|周|週")
_AS_OF = patterns.compile(r"\b(?:as of|Stand(?: vom)?|en date du|a fecha de)[:]? ")
_IT_IS = patterns.compile(r"^(?i:it(?: is|'s|’s)|es ist|il est)\s")
_MADE_AT = patterns.compile(rf"^(?i:(?:last )?(?:{_MADE}) (?:at|on))\b")
_EFFECTIVE = patterns.compile(
    r"(?i)\b(?:valid|effective|in force|appl(?:y|ies)|binding|gültig|gilt|en vigueur|vigentes?|must|should|never|if|when)\b"
)
_YEAR = patterns.compile(rf"^(?:\d{{4}}|(?i:{MONTH})(?: \d{{4}})?)$")
_PERIOD = patterns.compile(r"(?i)\b(?:month|year) is")
_MONTH_OR_YEAR = patterns.compile(rf"^(\d{{4}}|(?i:{MONTH})(?: \d{{4}})?)\b")
_SPAN = patterns.compile(f"^{RANGE}$")
_EPOCH = patterns.compile(f"^{EPOCH}$")
_AND = patterns.compile(r"^(?:,?\s*(?i:and|und|et|y|，|、)\s*|,\s+)")
_ICON = patterns.compile(r"^[\p{So}\x{FE0F}]+\s*")
_MARK = patterns.compile(r"^\s*(?:[-*+•]\s+)?(?:\*\*|__)?")

HINTS = (
    pattern(PRESENT | BARE | STAMPS | {f"{label} now" for label in BARE}),
    r"(?i)(?:date|time|timestamp|clock|week|month|day|时间戳|时间|時刻|datum|uhrzeit|heure|hora|fecha)[ _](?:now"
    r"|at (?:the )?(?:start|beginning)"
    r"|for (?:the )?user|ms|utc|actuel|actual)",
    _SENTENCES.join((r"(?i)", r"\s*[:：]?\s*(?:\*\*|`|[(（])?(?:\pN|上午|下午|\pL)")),
    r"(?i)^\W*(?:(?:it(?: is|'s|’s)|es ist|il est|as of|stand|nous sommes|now|today),?\s+)?"
    rf"(?:{WEEKDAY}(?:,?\s.{{0,14}}\pN|\W*$)|\d{{1,2}}[:：]\d|\d{{4}}[-/.年]|\d{{1,2}}[-./]\d|\d{{8}}T"
    rf"|\d{{1,2}}\s?(?:[ap]\.?\s?m|h|uhr|[时時点點])"
    r"|[\p{So}\x{FE0F}]+\s*\d"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.|er|º)?\s+(?:de |of )?{MONTH}|{MONTH}\.?\s+\d|[〇二][〇零一二三四五六七八九]"
    rf"|[上下午早晚中凌]\pL?\s?\d)",
    r"\b(?:as of|Stand|en date du|a fecha de)[:]? (?:vom )?\d",
)


def cuts(document: Document, lines: list[int]) -> Iterator[Cut]:
    """Moments that say when now is. `lines`: those that the hints hit."""
    for number in lines:
        for field in fields(document, number):
            if (length := _labelled(document, field)) and not document.shown(field.line):
                yield _cut(document, field.name, field.start, field.start + length, field)
        if document.prose(number) and (stated := list(_sentences(document, number))) and not document.shown(number):
            yield from stated
    yield from _alone(document, lines)


def _labelled(document: Document, field: Field) -> int:
    """Length of the moment that is the field's value, 0 if it is none."""
    text = document.plain[field.start : field.end].strip()
    label, strong = _known(field.label)
    if not label:
        return 0
    if field.closed:
        whole = (
            is_moment(text) or (strong and _is_week(label, text)) or (strong and bool(_YEAR.match(text) or _SPAN.match(text)))
        )
        length = len(text) if whole else 0
    else:
        length = len(text.rstrip(" .")) if strong and _is_week(label, text.rstrip(" .")) else _open_length(text, strong)
    if not length or (length == len(text) and is_cut_off(text, _below(document, field.line))):
        return 0
    if label in STAMPS and not has_time(text[:length]):
        return 0
    if not strong and not has_time(text[:length]) and document.metadata(field.line):
        return 0
    return length


def _is_week(label: str, text: str) -> bool:
    return bool(_WEEKS.search(label) and _WEEK.match(text))


def _below(document: Document, number: int) -> str:
    return document.lines[number + 1] if number + 1 < len(document.lines) else ""


def _known(label: str) -> tuple[str, bool]:
    """The label of this rule's that a field has, "" if none, and whether it can only mean now."""
    plain = str(_SUFFIX.sub("", label))
    for spelling in (label, plain):
        if spelling in PRESENT:
            return spelling, True
        if spelling in BARE or spelling in STAMPS:
            return spelling, False
    now = _NOW.match(plain)
    bare = (now[1] or now[2] or "") if now else ""
    return (bare, True) if bare in BARE or bare in PRESENT else ("", False)


def _open_length(text: str, strong: bool) -> int:
    length, whole = moment_at(text), text.rstrip(" .")
    if not length and (_EPOCH.match(whole) or (strong and (_YEAR.match(whole) or _SPAN.match(whole)))):
        return len(whole)
    rest = text[length:]
    ends = _GOES_ON.match(rest) if strong else _ENDS.match(rest)
    return length if ends and not _NOT_NOW.search(_sentence(rest)) else 0


def _sentences(document: Document, number: int) -> Iterator[Cut]:
    line, base = document.lines[number], document.starts[number]
    for begin in document.beginnings(number):
        at = begin
        while found := _statement(line[at:]):
            start, end = at + found[0], at + found[1]
            if not line[end:].strip() and is_cut_off(line[start:end], _below(document, number)):
                return
            yield Cut(base + start, base + end, NAME, "Date and time", line[at:end].strip(" *`"), line[start:end], stale=True)
            more = _AND.match(line[end:])  # "Today is Monday and the time is 10:15": only behind a statement
            if not more:
                break
            at = end + more.end()
    if (state := _AS_OF.search(line)) and (length := moment_at(line[state.end() :])):
        start, end = state.end(), state.end() + length
        stamp = has_time(line[start:end]) and has_date(line[start:end])
        if stamp and _ENDS.match(line[end:]) and not _EFFECTIVE.search(line[: state.start()]):
            yield Cut(base + start, base + end, NAME, "Date and time", line[state.start() : end], line[start:end], stale=True)


def _statement(rest: str) -> tuple[int, int] | None:
    """Where the moment is in a sentence that begins here and says when now is."""
    intro = _SENTENCE.match(rest)
    found = intro or _BRIEF.match(rest)
    if not found:
        return None
    start = found.end()
    length = moment_at(rest[start:])
    if not length and intro and _PERIOD.search(intro[0]) and (year := _MONTH_OR_YEAR.match(rest[start:])):
        length = len(year[1])
    value, after = rest[start : start + length], rest[start + length :]
    if not length or _NOT_NOW.search(_sentence(rest)):
        return None
    if not (has_date(value) or has_time(value) or _ENDS.match(after)):
        return None  # "Wir schreiben den 3. August nie so"
    if intro and _MADE_AT.match(rest) and not (has_time(value) and has_date(value) and _ENDS.match(after)):
        return None
    if _IT_IS.match(rest) and has_time(value) and has_day(value) and after.startswith(", and "):
        return start, start + length
    says = has_date(value) or (rest[:2].lower() in ("it", "es", "il") and has_time(value))
    return (start, start + length) if intro or (says and _ENDS.match(after)) else None


def _alone(document: Document, lines: list[int]) -> Iterator[Cut]:
    """A line that is nothing but a moment, if it is the only one: with date and time anywhere, else in a paragraph of its own
    or at either end of the text."""
    found = [number for number in lines if document.prose(number) and _is_alone(document, number)]
    if len(found) != 1:
        return
    number = found[0]
    first = number == 0 or all(document.blank(above) for above in range(number))
    last = all(document.blank(below) for below in range(number + 1, len(document.lines)))
    whole = has_day(document.lines[number]) and has_time(document.lines[number])
    apart = first or last or (document.blank(number - 1) and document.blank(number + 1))
    entry = document.blank(number - 1) and not document.blank(number + 1)  # the head of a dated entry
    if not ((whole and not entry) or apart) or document.shown(number):
        return
    if not first and _introduced(document, number):
        return
    line = document.lines[number]
    value = _ICON.sub("", line.strip(" *_`").rstrip("."))
    start = document.starts[number] + line.index(value)
    yield Cut(start, start + len(value), NAME, "Date and time", value, value, stale=True)


def _is_alone(document: Document, number: int) -> bool:
    line = document.lines[number]
    text = _ICON.sub("", line.strip(" *_`"))
    return (
        is_moment(text)
        and (has_date(text) or has_time(text))
        and not document.heading(number)
        and _MARK.match(line) is not None
    )


def _introduced(document: Document, number: int) -> bool:
    """Whether the line above makes it the value of something else ("Effective date:")."""
    above = number - 1
    while above >= 0 and document.blank(above):
        above -= 1
    return above >= 0 and (document.heading(above) > 0 or document.lines[above].rstrip().endswith((":", "：")))


def _cut(document: Document, name: str, start: int, end: int, field: Field) -> Cut:
    value = document.text[start:end]
    return Cut(start, end, NAME, name, f"{name}: {value}", value, stale=True)


def _sentence(text: str) -> str:
    """`text` up to the end of its first sentence."""
    for mark in (". ", "。", "! ", "? "):
        text = text.split(mark)[0]
    return text
