"""Labelled values in all the forms that prompts write them. Pure.

Bare (`Root: x`, `ROOT=x`), as list items (`- Root: x`, `4. Root: x`), bold (`**Root:** x`), as headings or labels with the value
on the line below, in tags (`<root>x</root>`, `<env root="x">`), tables (`| Root | x |`) and fields of JSON.
A label is compared in one normal form: `current_time`, `currentTime` and `Current Time (UTC)` are `current time`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import re2

from gateway.canonical.text import JSON, Document


@dataclass(frozen=True, slots=True)
class Field:
    """A label and where its value may be: [start, end) in characters of the text.

    closed: the value is exactly that span (a JSON string, a tag, a cell); else it begins there, and the rule says where it ends.
    """

    line: int
    label: str
    name: str
    start: int
    end: int
    closed: bool


_LABEL = r"([^\s:：=|<>\"{}\[\]*#][^:：=|<>\"{}\[\]\n]{0,58}?)"
_BARE = re2.compile(r"^" + _LABEL + r"(?:\*\*|__|`)?\s*(?:\*\*|__|`)?\s?[:：=]\s*(?:\*\*|__)?\s*`?")
_TAG = re2.compile(r"<([A-Za-z][\w:.-]{0,60})(?:\s[^<>\n]*)?>\s*([^<>\n]*?)\s*</([A-Za-z][\w:.-]{0,60})\s*>")
_ATTRIBUTE = re2.compile(r"\b([A-Za-z][\w-]{1,40})=\"([^\"<>\n]*)\"")
_CELLS = re2.compile(r"^\s*\|\s*(?:\*\*|`)?" + _LABEL + r"(?:\*\*|`)?\s*\|\s*(?:\*\*|`)?([^|\n]*?)(?:\*\*|`)?\s*\|\s*$")
_JSON = re2.compile(r"\"([A-Za-z][\w .-]{0,60})\"\s*:\s*(?:\"((?:[^\"\\]|\\.)*)\"|(-?[0-9][0-9.eE+-]*))")
_JSON_LINE = re2.compile(r"^\s*[{\"]")
_ALONE = re2.compile(
    r"^\s*(?:[-*+•–]\s+|\d{1,3}[.)]\s+|#{1,6}\s+)?(?:\*\*|__)?" + _LABEL + r"(?:\*\*|__)?\s*[:：]?(?:\*\*|__)?\s*$"
)
_OPEN_TAG = re2.compile(r"^\s*<([A-Za-z][\w:.-]{0,60})>\s*$")
_CAMEL = re2.compile(r"([a-z0-9])([A-Z])")
_ASIDE = re2.compile(r"\s*[(（][^()（）]*[)）]\s*$")
_SPACES = str.maketrans("_-./", "    ")
_FILLER = re2.compile(r"^(?:the|your|my|user'?s?|le|la|l'|votre|das|der|die|dein|el|tu|su)\s+")


@lru_cache(4096)
def normal(label: str) -> str:
    """One spelling for a label: words in lower case with single spaces, without quotes, emphasis and a remark in brackets."""
    text = unicodedata.normalize("NFKC", label).replace("’", "'").strip(" \t*_`\"'")
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
        elif _JSON_LINE.match(line):
            yield from _json(document, number)
        else:
            yield from _tags(document, number)
            yield from _bare(document, number)
            yield from _below(document, number)


def pattern(labels: Iterable[str]) -> str:
    """A pattern for the lines in which one of these normal labels may stand. It may hit too much, never too little."""
    spaced = {re2.escape(label).replace("\\ and\\ ", "\\ (?:and|&|/)\\ ").replace("\\ ", "[ _./-]?") for label in labels}
    words = sorted(word.replace("'", "['’]") for word in spaced)
    return r"(?i)(?:" + "|".join(words) + r")(?:[\"'*_`]|\s*[(（][^()（）]*[)）])*\s*(?:[:：=|>*\"]|$)"


def _field(document: Document, number: int, label: str, start: int, end: int, closed: bool) -> Field:
    base = document.starts[number]
    return Field(number, normal(label), label.strip(" *_`"), base + start, base + end, closed)


def _bare(document: Document, number: int) -> Iterator[Field]:
    line = document.lines[number]
    for begin in document.beginnings(number):
        match = _BARE.match(line[begin:])
        if match and begin + match.end() < len(line):
            yield _field(document, number, match[1], begin + match.end(), len(line), False)


def _tags(document: Document, number: int) -> Iterator[Field]:
    line = document.lines[number]
    for match in _TAG.finditer(line):
        if match[1] == match[3]:
            yield _field(document, number, match[1].rsplit(":", 1)[-1], match.start(2), match.end(2), True)
    if line.lstrip().startswith("<"):
        for match in _ATTRIBUTE.finditer(line):
            yield _field(document, number, match[1], match.start(2), match.end(2), True)


def _cells(document: Document, number: int) -> Iterator[Field]:
    match = _CELLS.match(document.lines[number])
    if match:
        yield _field(document, number, match[1], match.start(2), match.end(2), True)


def _json(document: Document, number: int) -> Iterator[Field]:
    for match in _JSON.finditer(document.lines[number]):
        group = 2 if match[2] is not None else 3
        yield _field(document, number, match[1], match.start(group), match.end(group), True)


def _below(document: Document, number: int) -> Iterator[Field]:
    """A label alone on its line: the value is the whole next line that is not blank."""
    line = document.lines[number]
    match = _OPEN_TAG.match(line) or _ALONE.match(line)
    if not match:
        return
    below = number + 1
    if document.blank(below) and document.heading(number):
        below += 1
    if document.blank(below) or not document.prose(below):
        return
    value = document.lines[below]
    lead = len(value) - len(value.lstrip(" \t-*`"))
    yield _field(document, below, match[1], lead, len(value.rstrip(" \t`*")), True)
