"""What a place looks like: paths, single words, systems with their versions, yes or no. Pure.

A value is one only if the text does not go on as an instruction: "/etc must never be touched" is no place.
"""

from __future__ import annotations

from typing import Any

from gateway.canonical import patterns
from gateway.canonical.cuts import PLACEHOLDER

PATH = patterns.compile(
    r"^((?:file://)?(?:~|/|[A-Za-z]:[\\/]|\\\\)[^\s`\"'<>|,;:，、。（(]*(?: [\p{Lu}\pN][^\s`\"'<>"
    r"|,;:/\\]*(?:[/\\][^\s`\"'<>|,;:]*)?)*)"
)
_LETTERS = r"\p{Latin}\p{Greek}\p{Cyrillic}\p{Hangul}\p{Han}\p{Katakana}\pN_"  # no Hiragana: those are the grammar of Japanese
WORD = patterns.compile(rf"^([{_LETTERS}][{_LETTERS}./@#+~:-]*)")
_VERSIONED = r"[A-Za-z][\w+-]*(?: [A-Z][\w+-]*){0,2} v?\d+(?:\.\d+)+[\w.+-]*"
_KNOWN = (
    r"(?i:linux|darwin|mac ?os(?: ?x)?|win(?:dows|32|64)?|freebsd|openbsd|android|ios|ubuntu|debian|fedora|arch|alpine"
    r"|nixos|wsl2?|"
    r"bash|zsh|fish|sh|pwsh|powershell|cmd(?:\.exe)?|nushell|x86_64|amd64|arm64|aarch64|x64|python|node|go|rustc?|gcc"
    r"|clang|java|openjdk|"
    r"ruby|npm|pnpm|yarn|uv|pip|cuda|nvidia|/bin/\w+|/usr/bin/\w+|v?\d+\.\d+)\b"
)
SYSTEM = patterns.compile(
    rf"^({_VERSIONED}(?:, {_VERSIONED})*(?: [(（][^()（）\n]*[)）])?|{_KNOWN}(?:[ \w_/+~-]|\.\S"
    rf"|[(（][^()（）\n]*[)）]){{0,100}}(?:, {_VERSIONED})*)"
)
FILE = patterns.compile(r"^([\pL\pN_.@-]+(?:[/\\][\pL\pN_.@ -]*[\pL\pN_-])*[/\\.][\pL\pN_-]+)")
SIZE = patterns.compile(r"^(\d{3,5}\s?[x×]\s?\d{3,5})(?:px)?")
HEAD = patterns.compile(
    r"^((?:on )?(?:branch )?[\pL\pN_][\pL\pN_./#+-]*\*?\s?(?:@|at)\s?[0-9a-f]{7,40}"
    r"(?:,? ?[(（]?(?:clean|dirty|\d+ (?:files? changed|changes?|modified|uncommitted))[^()（）\n]{0,40}[)）]?)?)"
)
"""A branch with its commit, and what `git status` says in one word."""
TOWN = patterns.compile(
    r"^((?:[\p{Lu}\p{Lo}][\pL'’.-]*|-?\d{1,3}\.\d+)(?:(?:, ?| | / ?)(?:[\p{Lu}\p{Lo}][\pL'’.-]*|-?\d{1,3}\.\d+)){0,5})"
)
FLAG = patterns.compile(
    r"^((?i:yes|no|true|false|clean|dirty|ja|nein|oui|non|sí|modified|none|是|否|はい|いいえ))\s*[.。]?\s*$"
)

_ENDS = patterns.compile(
    r"^[/\\]?(?:`|\*\*|__|\"|')?\s*(?:[.。;,，、]?\s*(?:です)?[.。\])）]?\s*$|[(（][^()（）\n]*[)）]\s*[.。]?\s*$"
    r"|[.。;]\s|。|[，、]|\s[|·•–—]\s"
    r"|[,;](?:\s|\p{Han})|(?i:and|und|et|y|e)\s|on [a-z][\w.-]*\d|(?i:with|and) \d+ \pL+ (?:changes?|files?)\b|(?i:on|auf"
    r"|sur|en)\s(?i:the |dem |la )?(?i:git )?(?i:branch|zweig|branche|rama)\b|で[す、,。])"
)
_INSTRUCTS = patterns.compile(
    r"(?i)\b(?:must|never|always|should|do not|don't|only|please|use|create|keep|avoid|prefer|required?|supported"
    r"|nothing else|or|if|unless|until|from|minimum|maximum|max|most|least|default|forbidden|allowed|is|per"
    r"|wenn|darf|muss|oder|au plus|doit|ou|debe"
    r"|niemals|immer|nur|jamais|"
    r"toujours|nunca|siempre|solo)\b"
)
_TYPE = patterns.compile(r"(?i)^(?:string|text|str|int|integer|number|bool|boolean|object|array|list|any|required|optional)$")
"""What a schema says in place of a value."""
_RULES = patterns.compile(
    r"(?i)^[,;(]? ?[(]?(?:is )?(?:read-?only|mirrored|forbidden|allowed|protected|schreibgeschützt|solo lectura)\b"
)
"""What a rule says about a folder right behind it."""
_CLAUSE = patterns.compile(r"[,;.，、。]|\s(?i:and|und|et|y)\s")


def length(kind: Any, text: str, closed: bool = False) -> int:
    """Length of the value of a kind at the start of `text`, 0 if there is none. closed: the value must be all of it."""
    match = kind.match(text)
    if not match:
        return 0
    found = match[1].partition(". ")[0].rstrip(" .。:")
    if _INSTRUCTS.search(found) or _TYPE.match(found):
        return 0
    rest = text[len(found) :]
    if closed:
        return len(found) if not rest.strip(" `*/\\.") else 0
    if _RULES.match(rest):
        return 0
    clause = _CLAUSE.split(rest)[0] if rest else ""
    return len(found) if (not rest or _ENDS.match(rest)) and not _INSTRUCTS.search(clause) else 0


def leaves(value: str, name: str) -> str:
    """A path's placeholder says which path, because the path may stand in more than one place."""
    return PLACEHOLDER if not PATH.match(value) else f"[{name.lower()}, see context]"
