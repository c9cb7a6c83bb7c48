"""Rule `place`, sentences: "You are working in /home/x", "The project root is ..." in six languages. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.canonical import patterns
from gateway.canonical.cuts import Cut
from gateway.canonical.place import NAME
from gateway.canonical.place_values import PATH, SYSTEM, WORD, leaves, length
from gateway.canonical.text import Document

_FOLDER = (
    r"(?:(?:primary |temporary |scratch )?(?:working |current |project |root |home |base |source |output "
    r"|temp )?(?:directory|folder)|cwd"
    r"|workspace(?: root| folder| directory)?|project (?:root|path)|repository root|repo root|repository|repo)"
)
_IS = r"(?: is(?: located)?(?: at| in| under)?| lives in)(?: now| currently| set to)?"
_WHOSE = r"(?:the |your |my |our )?(?:[\w-]+(?:'s|’s)? ){0,2}(?:current |primary |present )?"
_LEAD = r"(?:(?:please )?note(?: that|:)? |for (?:your )?(?:reference|context)[,:] |currently,? )?"
_PATHS = (
    rf"(?:{_WHOSE}{_FOLDER}{_IS}|the (?:absolute )?path (?:of|to) (?:the user(?:'s|’s)|your|the) {_FOLDER} is"
    r"|(?:you|i)(?: am| are|'re|’re|'m|’m) (?:currently |now )?(?:working|running|operating|located|started"
    r"|launched) (?:in|from|inside|at|under)"
    rf"(?: the)?(?: {_FOLDER})?(?: at)?"
    r"|(?:das |dein |ihr |der |die )?(?:aktuelles? |aktuelle[rn]? )?(?:arbeitsverzeichnis|projektverzeichnis"
    r"|verzeichnis|ordner|arbeitsordner|projektwurzel)"
    r" (?:ist|lautet|liegt (?:in|unter))|(?:du arbeitest|sie arbeiten) (?:gerade |derzeit )?(?:in|im"
    r"|unter)(?: dem)?(?: ordner| verzeichnis)?"
    r"|(?:le |la |votre |ton |ta )?(?:répertoire|dossier|racine)(?: de travail| du projet| courant| actuel)* est"
    r"|(?:vous travaillez|tu travailles)(?: actuellement)? dans(?: le (?:dossier|répertoire))?"
    r"|(?:el |la |tu |su )?(?:directorio|carpeta|raíz)(?: de trabajo| del proyecto| actual)* es|(?:estás trabajando"
    r"|trabajas|trabaja)(?: actualmente)? en(?: la carpeta| el directorio)?"
    r"|(?:当前|目前)?(?:的)?(?:工作目录|项目根目录|目录|工作区|项目目录)(?:是|为|在)|(?:你|您)(?:正|现在)?在"
    r"|(?:現在の)?(?:作業|カレント)?(?:ディレクトリ|フォルダ|ワークスペース|プロジェクトルート)は)"
)
_WORDS = (
    r"(?:(?:the |your )?(?:current )?(?:git branch|branch|hostname|host name) is|(?:you(?: are|'re"
    r"|’re) (?:currently )?)?on (?:the )?(?:git )?branch"
    r"|currently on (?:git )?branch|head is (?:now )?at|running (?:inside|in|on) (?:container|host|pod|node|machine|vm)|on host"
    r"|(?:you(?: are|'re|’re) )?(?:currently )?connected (?:via ssh )?to(?: the)?(?: host| server| machine)?"
    r"|(?:vous êtes|tu es) connecté[e]? (?:à la machine|à l['’]hôte|au serveur|à)|(?:estás|está) conectado (?:al servidor"
    r"|a la máquina|a)"
    r"|(?:du bist|sie sind) (?:verbunden mit|angemeldet auf)(?: dem)?(?: rechner| server)?"
    r"|(?:已|当前)连接到|(?:ホスト名|接続先)は"
    r"|auf dem (?:zweig|branch)|sur la branche|en la rama"
    r"|(?:der )?aktuelle (?:branch|zweig) ist|la branche (?:actuelle|courante) est|la rama actual es|当前分支(?:是|为)"
    r"|現在のブランチは)"
)
_SYSTEMS = (
    r"(?:(?:the |my |your )?(?:user(?:'s|’s) |current )?(?:os|operating system|shell|platform)(?: version)? is"
    r"|(?:you(?: are|'re|’re) )?running on|das betriebssystem ist|le système d['’]exploitation est"
    r"|el sistema operativo es|操作系统(?:是|为)|(?:実行環境|os)は)"
)
_QUOTE = r"\s*[:：]?\s*(?:\*\*|`|\"|')?"
_KINDS = tuple(
    (patterns.compile(rf"^(?i:{_LEAD}{subject}){_QUOTE}"), kind)
    for subject, kind in ((_SYSTEMS, SYSTEM), (_WORDS, WORD), (_PATHS, PATH))
)
_ANY = patterns.compile(rf"^(?i:{_LEAD}(?:{_SYSTEMS}|{_WORDS}|{_PATHS})){_QUOTE}[^\s]")
_REVERSED = patterns.compile(
    r"^(?i:(?:the |your )?(?:repository|repo|project|directory|folder|workspace) (?:at|in"
    r"|under) )`?(~?/[^\s`,;]+)`?(?i: is (?:your|the) (?:current )?"
    r"(?:working directory|workspace|project root))"
)
_ASIDE = patterns.compile(r"^\s[(（]")
_ON = patterns.compile(r"^ on (?:host |node |machine )?([a-z][\w.-]*\d[\w-]*)")
"""A host behind a container."""
_CHANGES = patterns.compile(
    r"^ (?:with|and) \d+ (?:uncommitted|unstaged|staged|untracked|modified|changed) (?:changes?|files?)"
)
"""What may follow a branch: how many changes there are."""
_MORE = patterns.compile(r"^(?:,|，|、|で、)?\s*(?i:and |und |et |y )?")
_BRANCH = patterns.compile(r"(?i)branch|zweig|rama|分支|ブランチ")
_NOUN = patterns.compile(
    r"(?i)(?:temporary|home|working|root|project|scratch) (?:directory|folder|root)|workspace(?: root)?"
    r"|repo(?:sitory)? root|git branch|branch|"
    r"hostname|operating system|shell|platform|container|host|head|verzeichnis|dossier|répertoire|directorio|carpeta|\bos\b"
)

HINTS = (
    rf"(?i){_PATHS}{_QUOTE}(?:file:|~|/|[a-z]:[\\/]|\\\\)",
    rf"(?i){_WORDS}{_QUOTE}[\pL\pN_][\pL\pN_./@#+~:-]*(?:`|\"|'|\*\*)?\s*(?:$|[^\pL\pN\s]|です|(?:and|und|et|y|on|with) )",
    rf"(?i){_SYSTEMS}{_QUOTE}[\pL\pN/]",
    r"(?i)(?:repository|repo|project|directory|folder|workspace) (?:at|in|under) `?~?/\S+ is (?:your|the)",
)


def cuts(document: Document, lines: list[int]) -> Iterator[Cut]:
    """Places that sentences state. `lines`: those that the hints hit."""
    for number in lines:
        if document.prose(number):
            stated = list(_in_line(document.lines[number], document.starts[number], list(document.beginnings(number))))
            if stated and not document.shown(number):
                yield from stated


def _in_line(line: str, base: int, beginnings: list[int]) -> Iterator[Cut]:
    for at in beginnings:
        while found := _statement(line[at:]):
            start, end, intro = found
            value = line[at + start : at + end]
            name = _name(intro)
            tells = line[at : at + end].strip(" *`")
            yield Cut(base + at + start, base + at + end, NAME, name, tells, value, leaves(value, name))
            at += end
            if aside := _aside(line, at):
                start, end = aside
                yield Cut(base + start, base + end, NAME, "system", f"system: {line[start:end]}", line[start:end])
                at = end + 1
            elif node := _ON.match(line[at:]):
                start, end = at + node.start(1), at + node.end(1)
                yield Cut(base + start, base + end, NAME, "host", f"host: {node[1]}", node[1])
                at = end
            more = _MORE.match(line[at:])  # a second statement behind the first
            at += more.end() if more else 0


def _statement(rest: str) -> tuple[int, int, str] | None:
    """(start, end, introduction) of the place in a sentence that begins here."""
    for pattern, kind in _KINDS if _ANY.match(rest) else ():
        intro = pattern.match(rest)
        if intro and (size := length(kind, rest[intro.end() :])):
            value = rest[intro.end() : intro.end() + size]
            if kind is WORD and not any(letter.isalpha() for letter in value):
                continue  # "connected to 3 devices"
            if kind is not WORD or any(not letter.isalpha() for letter in value) or _BRANCH.search(intro[0]):
                changes = _CHANGES.match(rest[intro.end() + size :]) if kind is WORD else None
                return intro.end(), intro.end() + size + (changes.end() if changes else 0), intro[0]
    found = _REVERSED.match(rest) if "/" in rest else None
    return (found.start(1), found.end(1), found[0]) if found else None


def _aside(line: str, at: int) -> tuple[int, int] | None:
    """The system in brackets behind a place: "(Debian 12)"."""
    opening = _ASIDE.match(line[at:])
    start = at + opening.end() if opening else len(line)
    end = max(line.find(")", start), line.find("）", start))
    return (start, end) if end > start and length(SYSTEM, line[start:end], True) else None


def _name(intro: str) -> str:
    """What a sentence is about."""
    noun = _NOUN.search(intro)
    return noun[0] if noun else "path"
