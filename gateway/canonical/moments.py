"""How people and programs write a moment: dates and times in six languages, as patterns. Pure.

A moment is a run of dates, times, weekdays and zones. It names one point in time: two dates or two times are a range, and a
range is a rule ("open 10:00-18:00"), not the present.
"""

from __future__ import annotations

from typing import Any

from gateway.canonical import patterns

MONTH = (
    "(?:january|february|march|april|may|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul"
    "|aug|sept?|oct|nov|dec"
    "|januar|jänner|februar|märz|mai|juni|juli|oktober|dezember|mrz|okt|dez"
    "|janvier|f[ée]vrier|mars|avril|juin|juillet|ao[uû]t|septembre|octobre|novembre|d[ée]cembre|janv|f[ée]vr|avr|juil|déc"
    "|enero|febrero|marzo|abril|mayo|junio|julio|agosto|sep?tiembre|octubre|noviembre|diciembre|ene|abr|ago|dic)"
)
_DAYS = (  # the longer spellings first: a word boundary of RE2 knows no accents, so "mi" would be found in "miércoles"
    "(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday|montag|dienstag|mittwoch|donnerstag|freitag|samstag"
    "|sonnabend|sonntag"
    "|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|mi[ée]rcoles|jueves|viernes|s[áa]bado|domingo"
    "|mi[ée]|s[áa]b|mon|tues?|wed|thur?s?|fri|sat|sun|lun|mar|mer|jeu|ven|sam|dim|jue|vie|dom|mo|di|mi|do|fr|sa|so)"
)
WEEKDAY = (
    rf"(?:{_DAYS}\b\.?|(?:星期|礼拜|禮拜|周|週)[一二三四五六日天]|[（(]?[月火水木金土日]曜日?[）)]?|[（(](?:[月火水木金土日]|(?:星期|周|週)[一二三四五六日天])[）)]"
    rf"|[（(]{_DAYS}\.?[）)])"
)
_ZONE = (
    r"(?:\(?(?:UTC|GMT|Z|[A-Z]{2,5}T|CET|MEZ|MESZ|JST|KST|IST|HKT|SGT)\b(?:\s?[+-]\s?\d{1,2}(?::?\d{2})?)?\)?|Z\b"
    r"|[+-]\d{2}:?\d{2}\b|\(?[A-Z][a-z]+/[A-Z][A-Za-z_]+(?:/[A-Z][A-Za-z_]+)?\)?|\((?:UTC|GMT)[^()\n]{0,12}\))"
)
_CLOCK = r"\d{1,2}[:：]\d{2}(?:[:：]\d{2}(?:[.,]\d{1,9})?)?"
TIME = (
    rf"(?:{_CLOCK}(?:\s?(?:[AaPp]\.?\s?[Mm]\b\.?|Uhr|h\b|heures|horas))?|\d{{1,2}}\s?[AaPp]\.?\s?[Mm]\b\.?"
    r"|\d{1,2}\.\d{2}\s?Uhr|\d{1,2}\s?h\s?\d{2}(?:\s?min)?|\d{1,2}\s?Uhr(?:\s\d{1,2})?"
    r"|(?:上午|下午|早上|晚上|中午|凌晨|午前|午後)?\s?\d{1,2}\s?[时時点點]\s?(?:\d{1,2}\s?分)?(?:\s?\d{1,2}\s?秒)?(?:半|整)?"
    rf"|(?:上午|下午|早上|晚上|中午|凌晨|午前|午後)\s?{_CLOCK})"
)
DATE = (
    r"(?:[〇零一二三四五六七八九]{4}年[一二三四五六七八九十]{1,3}月[一二三四五六七八九十]{1,3}[日号號]"
    r"|\d{4}-W\d{2}(?:-\d)?\b|\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}|\d{1,2}[/.]\d{1,2}[/.]\d{2}\b"
    r"|(?:\d{4}|令和\s?\d{1,2})\s?年\s?\d{1,2}\s?月\s?\d{1,2}\s?[日号號]"
    rf"|(?i:{MONTH})\.?\s+(?:the\s+)?\d{{1,2}}(?:st|nd|rd|th)?,?\s+\d{{4}}"
    rf"|(?i:le |der |den |dem |the |el )?\d{{1,2}}(?:\.|st|nd|rd|th|er|º)?[\s-]+(?:of "
    rf"|de )?(?i:{MONTH})\.?,?[\s-]+(?:de |del |of )?\d{{4}})"
)
_STAMP = rf"(?:\d{{4}}-\d{{2}}-\d{{2}}T{_CLOCK}|\d{{8}}T\d{{6}})(?:Z|[+-]\d{{2}}:?\d{{2}})?"
_UNIX = rf"(?i:{WEEKDAY})\s+(?i:{MONTH})\s+\d{{1,2}}\s+{_CLOCK}\s+(?:[AP]M\s+)?(?:[A-Z]{{2,5}}\s+)?\d{{4}}"
_YEARLESS = (
    rf"(?:(?i:{MONTH})\.?\s+\d{{1,2}}(?:st|nd|rd|th)?\b|\d{{1,2}}\.?\s+(?:de |of )?(?i:{MONTH})\b|\d{{1,2}}月\d{{1,2}}[日号號])"
)
_UNIT = rf"(?:{_UNIX}|{_STAMP}|{DATE}|{TIME}|(?i:{WEEKDAY})|{_YEARLESS})"
_GLUE = r"(?:\s*[,，、]?\s*(?:(?:at|um|à|a las?|del|vom|du|of|am|den|der|le|el|de|on|und|and|y|et|@|-|–|·|\||/)\s+)?|\s*的)"
MOMENT = rf"{_UNIT}(?:{_GLUE}(?:{_UNIT}|{_ZONE}))*"
RANGE = rf"{DATE}\s*(?:to|until|through|bis|au|al|hasta|至|到|から|[-–—~～])\s*{DATE}"
EPOCH = r"\d{10}(?:\d{3})?(?:\.\d{1,9})?"

_MOMENT = patterns.compile(f"^({MOMENT})")
_WHOLE = patterns.compile(rf"^(?:{MOMENT}|{EPOCH})[.。]?$")
_TIMES = patterns.compile(f"{_UNIX}|{_STAMP}|{TIME}")
_DATES = patterns.compile(f"{_UNIX}|{_STAMP}|{DATE}")
_DAY = patterns.compile(_YEARLESS)
_A_YEAR = patterns.compile(r"^\s*(?:19|20)\d{2}\b")
_OFFSET = patterns.compile(r"(:\d{2}:\d{2}(?:[.,]\d{1,9})?)\s?[+-]\d{2}:?\d{2}|(:\d{2})\s?\+\d{2}:?\d{2}")
_HALF_DAY = patterns.compile(r"[AaPp]\.\s?[Mm]\.$")
_GOES_ON = patterns.compile(r"^(?:[\pL\pN]|[-–—]\s?\d|\s[-–—]\s?\d|\s(?:to|bis|until|through)\s)")
_CJK = patterns.compile(r"^[\p{Han}\p{Hiragana}\p{Katakana}]")


def moment_at(text: str) -> int:
    """Length of the moment with which `text` begins, 0 if it begins with none or with a range."""
    match = _MOMENT.match(text)
    if not match:
        return 0
    found = match[1].rstrip(" ,，、-–·|/")
    if found.endswith(".") and not _HALF_DAY.search(found):
        found = found[:-1]
    rest = text[len(found) :]
    if _GOES_ON.match(rest) and not _CJK.match(rest):
        return 0
    plain = _OFFSET.sub(r"\1\2", found)  # `-02:00` after seconds is a zone, after minutes the end of a range
    if len(_DATES.findall(plain)) > 1 or len(_TIMES.findall(_DATES.sub(_keep_time, plain))) > 1:
        return 0
    return len(found)


def is_moment(text: str) -> bool:
    """Whether the whole text is one moment, or seconds or milliseconds since the epoch."""
    text = text.strip()
    return bool(_WHOLE.match(text)) and (text.replace(".", "").isdigit() or moment_at(text) >= len(text.rstrip(".。")))


def has_time(text: str) -> bool:
    return bool(_TIMES.search(text))


def has_day(text: str) -> bool:
    """Whether there is a day of a month, with its year or without."""
    return bool(_DATES.search(text) or _DAY.search(text))


def is_cut_off(text: str, below: str) -> bool:
    """Whether a moment that ends its line goes on in the line `below`: the year of a date stands there."""
    return not has_date(text) and bool(_DAY.search(text)) and bool(_A_YEAR.match(below))


def has_date(text: str) -> bool:
    return bool(_DATES.search(text))


def _keep_time(match: Any) -> str:
    """A date in which digits could be taken for a time is blanked; a stamp stays one time."""
    return "12:00" if ":" in match[0] or "T" in match[0] else " "
