"""Labelled values in all the forms that prompts write them. Pure.

Bare (`Root: x`, `ROOT=x`), as list items (`- Root: x`, `4. Root: x`), bold (`**Root:** x`), as headings or labels with the
value on the line below, in tags (`<root>x</root>`, `<env root="x">`), tables (`| Root | x |`) and fields of JSON.
A label is compared in one normal form: `current_time`, `currentTime` and `Current Time (UTC)` are `current time`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import re2

from gateway.canonical import patterns
from gateway.canonical.text import JSON, Document


@dataclass(frozen=True, slots=True)
class Field:
    """A label and where its value may be: [start, end) in characters of the text.

    closed: the value is exactly that span (a JSON string, a tag, a cell); else it begins there, and the rule says where it
    ends.
    """

    line: int
    label: str
    name: str
    start: int
    end: int
    closed: bool


_LABEL = r"([^\s:：=|<>\"{}\[\]【】*#][^:：=|<>\"{}\[\]【】\n]*?)"
_BARE = patterns.compile(
    r"^" + _LABEL + r"(?:\*\*|__|`)?\s*(?:\*\*|__|`)?(?:\s?[:：=]|[】\]]\s?[:：]?|\s[-–—]\s)\s*(?:\*\*|__)?\s*[`\"']?"
)
_TAG = patterns.compile(r"<([^\s<>/!?\"]+)(?:\s[^<>\n]*)?>\s*([^<>\n]*?)\s*</([^\s<>/!?\"]+)\s*>")
_ATTRIBUTE = patterns.compile(r"\b([A-Za-z][\w-]{1,40})=\"([^\"<>\n]*)\"")
_QUOTES = ('"', "'")
_ELEMENT = patterns.compile(r"^\s*<([^\s<>/!?\"]*)")
_PASSING = frozenset({"session", "conversation", "request", "trace", "run", "chat", "thread"})
_OF_ELEMENT = frozenset({"id", "uuid", "key"})
"""Attributes that mean something only with the name of their element: `<session id="...">`."""
_CELLS = patterns.compile(r"^\s*\|\s*(?:\*\*|`)?" + _LABEL + r"(?:\*\*|`)?\s*\|\s*(?:\*\*|`)?([^|\n]*?)(?:\*\*|`)?\s*\|\s*$")
_RULER = patterns.compile(r"^\s*\|[\s|:-]+\|\s*$")
_JSON = patterns.compile(r"\"([^\"\\:{}\[\],]+)\"\s*:\s*(?:\"((?:[^\"\\]|\\.)*)\"|(-?[0-9][0-9.eE+-]*))")
_JSON_LINE = patterns.compile(r"^\s*[{\"]")
_JSON_BEHIND = patterns.compile(
    r"(?i)^[^{}\"]*\b(?:context|metadata|meta|environment|runtime|state)\b[^{}\"]{0,40}[:：]\s*\{.*\}\s*$"
)
_ALONE = patterns.compile(
    r"^\s*(?:[-*+•–]\s+|\d{1,3}[.)]\s+|#{1,6}\s+)?(?:\*\*|__)?" + _LABEL + r"(?:\*\*|__)?\s*[:：]?(?:\*\*|__)?\s*$"
)
_OPEN_TAG = patterns.compile(r"^\s*<([^\s<>/!?\"]+)>\s*$")
_ACCENTS = patterns.compile(r"[\x{0300}-\x{036F}]+")
_CAMEL = patterns.compile(r"([a-z0-9])([A-Z])")
_ASIDE = patterns.compile(r"\s*[(（][^()（）]*[)）]\s*$")
_ACCENTED = {"a": "[aàáâä]", "e": "[eéèêë]", "i": "[iíîï]", "o": "[oóôö]", "u": "[uúùûü]", "c": "[cç]", "n": "[nñ]"}
_SPACES = str.maketrans("_-./", "    ")
_FILLER = patterns.compile(r"^(?:the|your|my|user'?s?|le|la|l'|votre|das|der|die|dein|el|tu|su)\s+")


def _plain(label: str) -> str:
    """Full-width letters as plain ones, Latin letters without accents."""
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", label)))


@lru_cache(4096)
def normal(label: str) -> str:
    """One spelling for a label: words in lower case with single spaces, without quotes, emphasis and a remark in brackets."""
    text = _plain(label).replace("’", "'").strip(" \t*_`\"'")
    text = _ASIDE.sub("", _CAMEL.sub(r"\1 \2", text))
    text = " ".join(text.translate(_SPACES).replace("&", " and ").split()).casefold()
    return str(_FILLER.sub("", text))


def fields(document: Document, number: int) -> Iterator[Field]:
    """The labelled values of one line, outermost form first."""
    if document.kind(number) == JSON:
        yield from _json(document, number)
    elif document.prose(number):
        line = document.lines[number]
        if line.lstrip().startswith("|"):
            yield from _cells(document, number)
        elif _JSON_LINE.match(line) or ("{" in line and _JSON_BEHIND.match(line)):
            yield from _json(document, number)
        else:
            yield from _tags(document, number)
            yield from _bare(document, number)
            yield from _below(document, number)


def pattern(labels: Iterable[str]) -> str:
    """A pattern for the lines in which one of these normal labels may stand. It may hit too much, never too little."""
    spaced = {re2.escape(label).replace("\\ and\\ ", "\\ (?:and|&|/)\\ ").replace("\\ ", "[ _./-]{0,2}") for label in labels}
    words = sorted(_any_accent(word.replace("'", "['’]")) for word in spaced)
    return r"(?i)(?:" + "|".join(words) + r")(?:[\"'*_`]|\s*[(（][^()（）]*[)）])*\s*(?:[:：=|>*\"】\]]|[-–—]\s|$)"


def _any_accent(word: str) -> str:
    """A pattern for a label without accents that also finds it with them."""
    return "".join(_ACCENTED.get(letter, letter) for letter in word) if word.isascii() else word


def _field(document: Document, number: int, label: str, start: int, end: int, closed: bool) -> Field:
    base = document.starts[number]
    return Field(number, normal(label), label.strip(" *_`"), base + start, base + end, closed)


def _bare(document: Document, number: int) -> Iterator[Field]:
    line = document.lines[number]
    for begin in document.field_beginnings(number):
        match = _BARE.match(line[begin:])
        start = begin + match.end() if match else len(line)
        if match and start < len(line):
            quoted = line[start - 1] in _QUOTES
            end = line.find(line[start - 1], start) if quoted else len(line)
            if end > start:
                yield _field(document, number, match[1], start, end, quoted)


def _tags(document: Document, number: int) -> Iterator[Field]:
    line = document.lines[number]
    for match in _TAG.finditer(line):
        if match[1] == match[3]:
            yield _field(document, number, match[1].rsplit(":", 1)[-1], match.start(2), match.end(2), True)
    if element := _ELEMENT.match(line):
        for match in _ATTRIBUTE.finditer(line):
            label = f"{element[1]} {match[1]}" if match[1] in _OF_ELEMENT and element[1] in _PASSING else match[1]
            yield _field(document, number, label, match.start(2), match.end(2), True)


def _cells(document: Document, number: int) -> Iterator[Field]:
    match = _CELLS.match(document.lines[number])
    below = document.lines[number + 1] if number + 1 < len(document.lines) else ""
    if match and not _RULER.match(below):  # a line with a ruler below is the table's head
        yield _field(document, number, match[1], match.start(2), match.end(2), True)


def _json(document: Document, number: int) -> Iterator[Field]:
    for match in _JSON.finditer(document.lines[number]):
        group = 2 if match[2] is not None else 3
        yield _field(document, number, match[1], match.start(group), match.end(group), True)


def _below(document: Document, number: int) -> Iterator[Field]:
    """A label alone on its line: the value is the whole next line that is not blank, or each item of a list below."""
    line = document.lines[number]
    match = _OPEN_TAG.match(line) or _ALONE.match(line)
    if not match:
        return
    below = number + 1
    if document.blank(below) and document.heading(number):
        below += 1
    listed = True
    while listed and not document.blank(below) and document.prose(below):
        value = document.lines[below]
        lead = len(value) - len(value.lstrip(" \t-*`"))
        yield _field(document, below, match[1], lead, len(value.rstrip(" \t`*")), True)
        listed = value.lstrip().startswith(("- ", "* "))
        below += 1
        listed = listed and not document.blank(below) and document.lines[below].lstrip().startswith(("- ", "* "))
