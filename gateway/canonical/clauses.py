"""Whether a clause states something or asks for something: the last word on what the rules over lines find. Pure.

"Working directory: /srv/app" says where the agent is. "If the working directory is /srv/app, stop" and "Python version: 3.12 or
later" use the same words and are instructions, so their values stay where they are. A sentence of its own behind the value may
ask for anything, and so may a clause with a subject of its own: it stays, and the value moves ("Current time: 10:15. Never
mention it."). What binds the value itself follows at once: "(default)", "or later", "must be kept".
"""

from __future__ import annotations

from bisect import bisect_right

from gateway.canonical import patterns
from gateway.canonical.cuts import Cut
from gateway.canonical.text import Document

_BREAK = patterns.compile(r"[.!?]\s+|[。！？；]|;\s|\s[|·•]\s")
_BEGINS = patterns.compile(
    r"(?i)^\W*(?:(?:and|but|so|or|then|und|aber|et|mais|y|pero)\s+)?(?:(?:if|when|whenever|unless|until|once|while"
    r"|pretend|suppose"
    r"|imagine|warn|answer|reply|respond|write|print|say|set|use|wenn|falls|sobald|bis|nimm an|stell dir|antworte"
    r"|schreibe|setze"
    r"|si|lorsque|quand|suppose[zr]?|imagine[zr]?|réponds|écris|cuando|supón|imagina|responde|escribe)\b|如果"
    r"|当[^前].{0,12}时[，,]|假设|假如"
    r"|若|もし|仮に)"
)
_EXAMPLE = patterns.compile(
    r"(?i)^\W*(?:e\.\s?g\.?|z\.\s?b\.|p\.\s?ex\.|p\.\s?ej\.|for example|for instance|example|beispiel)(?:\W|$)"
)
_BINDS = patterns.compile(
    r"(?i)^[\s,(（`*\"'–—-]*(?:(?:and|but|by|is|are|which|it|und|ist|et|est|ne|y|es|no|se)\s+){0,2}(?:default|if|when|wenn|quand|lorsque|cuando|never|always"
    r"|must|should|shall|only|nothing else|do not|don['’]t|cannot|unless|otherwise|at (?:most|least)"
    r"|or (?:later|less|more|newer|older|higher|lower|above|below|ask|better)|maximum|minimum|max|required?|forbidden|allowed"
    r"|standardmäßig|immer|niemals|nie|muss|müssen|darf|dürfen|soll|nur|mindestens|höchstens|oder (?:neuer|mehr|weniger)"
    r"|par défaut|toujours|jamais|doit|doivent|seulement|au (?:plus|moins)"
    r"|por defecto|siempre|nunca|debe|deben|solo|sólo|como (?:máximo|mínimo))\b"
)
_BINDS_CJK = patterns.compile(
    r"不得|不要|不能|必须|必須|应当|禁止|只能|默认|至少|最多|以上|以下|しないで|してください|すること|こと$|必ず|以内|既定"
)


def states(document: Document, cut: Cut) -> bool:
    """Whether the clause around a cut of a single line says how things are."""
    number = bisect_right(document.starts, cut.start) - 1
    base, line = document.starts[number], document.lines[number]
    before, value, after = line[: cut.start - base], line[cut.start - base : cut.end - base], line[cut.end - base :]
    clause = before[_last_break(before) :]
    return not (
        _BEGINS.match(clause)
        or _EXAMPLE.match(line)
        or (after and _BINDS.match(after))
        or (not line.isascii() and _BINDS_CJK.search(value + _BREAK.split(after, 1)[0]))
    )


def _last_break(text: str) -> int:
    """Where the clause at the end of `text` begins."""
    return max((match.end() for match in _BREAK.finditer(text)), default=0)
