"""Rule `place`: where the agent runs. Pure.

Labelled working directories, roots, branches, hosts, platforms and toolchains; `<env>` blocks; and blocks of git status and recent
commits. A value must look like what its label says (`Root:` a path, `Branch:` one word), so that an instruction with the same
first words stays ("Branch: always create a new one").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gateway.canonical import patterns
from gateway.canonical.cuts import PLACEHOLDER, Cut
from gateway.canonical.fields import Field, fields, normal, pattern
from gateway.canonical.text import Document

NAME = "place"


def _labels(text: str) -> frozenset[str]:
    return frozenset(normal(label) for label in text.replace("\n", "|").split("|") if label.strip())


PATHS = _labels("""
    working directory|current working directory|cwd|pwd|workdir|work dir|working dir|current directory|current dir|current folder
    working folder|workspace|workspace root|workspace folder|workspace folders|workspace directory|workspace path|workspace dir
    project root|project directory|project path|project dir|project folder|project|root|root directory|root path|root dir|repo root
    repository root|repository path|repo path|repo|repository|git root|git repository root|directory|folder|home|home directory
    home dir|user home directory|user home|sandbox root|worktree|git worktree|primary working directory|additional working directories|session directory
    scratchpad directory|temp directory|temporary directory|tmp dir|cwd path|agent workspace|start directory|initial directory
    initial working directory|current workspace|current workspace directory|current project|current file|open file|active file
    arbeitsverzeichnis|aktuelles arbeitsverzeichnis|aktuelles verzeichnis|projektverzeichnis|projektordner|arbeitsordner|stammverzeichnis
    arbeitsbereich|verzeichnis|projektpfad|wurzelverzeichnis|heimatverzeichnis|aktueller ordner|projektwurzel
    répertoire de travail|répertoire de travail actuel|répertoire courant|répertoire actuel|dossier de travail|dossier courant
    racine du projet|dossier du projet|répertoire du projet|espace de travail|répertoire|dossier actuel
    directorio de trabajo|directorio de trabajo actual|directorio actual|carpeta de trabajo|carpeta actual|raíz del proyecto
    directorio del proyecto|carpeta del proyecto|espacio de trabajo|directorio
    工作目录|当前工作目录|当前目录|项目根目录|项目目录|工作区|工作区根目录|工作路径|项目路径|工作目錄|當前目錄|根目录|主目录
    作業ディレクトリ|現在の作業ディレクトリ|カレントディレクトリ|現在のディレクトリ|ワークスペース|プロジェクトルート|プロジェクトのルート|作業フォルダ
    プロジェクトディレクトリ|ルートディレクトリ|ワーキングディレクトリ|ホームディレクトリ
""")
WORDS = _labels("""
    git branch|branch|current branch|current git branch|active branch|main branch|default branch|base branch|git user|git ref|head
    host|hostname|host name|machine|machine name|computer|computer name|container|container id|node|node name|server name|pod
    git commit|commit|current commit|head commit|git sha|last commit|latest commit
    zweig|aktueller zweig|aktueller branch|rechner|rechnername|rechner name
    branche|branche actuelle|branche git|branche courante|hôte|nom d'hôte|machine hôte|rama|rama actual|rama de git|equipo|nombre del equipo
    分支|当前分支|git 分支|git分支|主机|主机名|機器名稱|当前git分支|ブランチ|現在のブランチ|git ブランチ|gitブランチ|ホスト|ホスト名
""")
SYSTEMS = _labels("""
    platform|os|host|current os|host os|user os|user shell|os version|operating system|os name|os type|system|kernel|kernel version|arch|architecture|cpu architecture|cpu arch
    shell|default shell|user shell|shell path|distro|distribution|terminal|runtime|runtime version|toolchain|compiler|python|python version
    node version|node.js version|node js version|go version|rust version|java version|ruby version|git version|npm version
    package manager|interpreter|python interpreter|virtual env|virtualenv|venv|active environment|conda environment|gpu|host os
    betriebssystem|plattform|systemversion|architektur|système d'exploitation|système|plateforme|sistema operativo|plataforma|arquitectura
    操作系统|平台|系统版本|系统|架构|内核|终端|默认 shell|作業系統|オペレーティングシステム|プラットフォーム|アーキテクチャ|シェル|カーネル
""")
FLAGS = _labels("""
    is directory a git repo|is git repo|is git repository|git repo|git repository|is a git repository|in git repo|git|git dirty
    is directory a git repository|git repo?|inside git repo|git status|working tree|git clean|is directory a git repo?
    sandbox|is sandboxed|in container|inside container
""")

_PATH = patterns.compile(
    r"^((?:file://)?(?:~|/|[A-Za-z]:[\\/]|\\\\)[^\s`\"'<>|,;:，、。（(]*(?: [\p{Lu}\pN][^\s`\"'<>|,;:/\\]*(?:[/\\][^\s`\"'<>|,;:]*)?)*)"
)
_WORD = patterns.compile(r"^([\pL\pN_][\pL\pN_./@#+~:-]*)")
_SYSTEM = patterns.compile(
    r"^((?i:linux|darwin|mac ?os(?: ?x)?|win(?:dows|32|64)?|freebsd|openbsd|android|ios|ubuntu|debian|fedora|arch|alpine|nixos|wsl2?|"
    r"bash|zsh|fish|sh|pwsh|powershell|cmd(?:\.exe)?|nushell|x86_64|amd64|arm64|aarch64|x64|python|node|go|rustc?|gcc|clang|java|openjdk|"
    r"ruby|npm|pnpm|yarn|uv|pip|cuda|nvidia|/bin/\w+|/usr/bin/\w+|v?\d+\.\d+)\b(?:[^\n|·•,;.。(（]|\.\S|[(（][^()（）\n]*[)）]){0,100})"
)
_FLAG = patterns.compile(
    r"^((?i:yes|no|true|false|clean|dirty|ja|nein|oui|non|sí|enabled|disabled|modified|none|是|否|はい|いいえ))\s*[.。]?\s*$"
)
_ENDS = patterns.compile(
    r"^[/\\]?(?:`|\*\*|__|\"|')?\s*(?:[.。;,，、]?\s*(?:です)?[.。]?\s*$|[(（][^()（）\n]*[)）]\s*[.。]?\s*$|[.。;]\s|。|\s[|·•]\s|,\s)"
)
_INSTRUCTS = patterns.compile(
    r"(?i)\b(?:must|never|always|should|do not|don't|only|please|use|create|keep|avoid|prefer|required?|supported|niemals|immer|jamais|"
    r"toujours|nunca|siempre)\b"
)

_LEAD = r"(?:(?:please )?note(?: that|:)? |for (?:your )?(?:reference|context)[,:] |currently,? )?"
_SUBJECT = (
    r"(?:(?:the |your |my |our )?(?:user(?:'s|’s) )?(?:current |primary |present )?(?:working directory|cwd|workspace(?: root| folder| directory)?"
    r"|project (?:root|directory|folder|path)|repository root|repo root|root directory|home directory|current directory|git branch|branch|hostname)"
    r"(?: is| is (?:located )?(?:at|in|under)|:)(?: now| currently| set to)?"
    r"|(?:the |my )?(?:user(?:'s|’s) |current )?(?:os|operating system|shell|platform)(?: version)? is"
    r"|the (?:absolute )?path (?:of|to) (?:the user(?:'s|’s)|your|the) (?:workspace|project|working directory) is"
    r"|the project(?:'s|’s) temporary directory is"
    r"|(?:you|i)(?: am| are|'re|’re|'m|’m) (?:currently |now )?(?:working|running|operating|located|started|launched) (?:in|from|inside|at|under)"
    r"(?: the)?(?: (?:working )?(?:directory|folder|workspace|project|repository|repo))?(?: at)?"
    r"|you(?: are|'re|’re) (?:currently )?on (?:the )?(?:git )?branch|current(?:ly)? on (?:git )?branch"
    r"|(?:das |dein |ihr )?(?:aktuelle[s]? )?(?:arbeitsverzeichnis|projektverzeichnis) (?:ist|lautet)|du arbeitest in|sie arbeiten in"
    r"|(?:le |votre |ton )?(?:répertoire|dossier) (?:de travail|courant|actuel) est|vous travaillez dans|tu travailles dans"
    r"|(?:el |tu |su )?directorio (?:de trabajo|actual)(?: actual)? es|(?:la )?carpeta de trabajo es|estás trabajando en|trabajas en"
    r"|(?:当前)?(?:工作目录|项目根目录)(?:是|为|在)|你(?:正)?在|(?:現在の)?作業ディレクトリは)"
)
_SENTENCE = patterns.compile(rf"^(?i:{_LEAD}{_SUBJECT})\s*[:：]?\s*(?:\*\*|`|\"|')?")
_BRANCH = patterns.compile(r"(?i)branch|hostname")
_NOUN = patterns.compile(r"(?i)temporary directory|home directory|working directory|workspace(?: root)?|project \w+|repo(?:sitory)? root|root directory|git branch|branch|"
                    r"hostname|operating system|shell|platform|\bos\b")  # fmt: skip
_OS = patterns.compile(r"(?i)\b(?:os|operating system|shell|platform)\b")

HINTS = (
    pattern(PATHS | WORDS | SYSTEMS | FLAGS),
    rf"(?i){_SUBJECT}\s*[:：]?\s*(?:\*\*|`|\"|')?(?:file:|~|/|[a-z]:[\\/]|\\\\|\pL)",
)


def cuts(document: Document, lines: list[int]) -> Iterator[Cut]:
    """Labelled and stated places. `lines`: those that the hints hit."""
    for number in lines:
        for field in fields(document, number):
            if (length := _length(document, field)) and not document.shown(field.line):
                yield _cut(document, field, length)
        if document.prose(number) and not document.shown(number):
            yield from _sentences(document, number)


def _length(document: Document, field: Field) -> int:
    """Length of the value of a label that this rule knows, 0 if it does not look like one."""
    text = document.text[field.start : field.end]
    for labels, kind in ((PATHS, _PATH), (SYSTEMS, _SYSTEM), (WORDS, _WORD), (FLAGS, _FLAG)):
        if field.label in labels and (length := _value(kind, text, field.closed)):
            return length
    return 0


def _value(kind: Any, text: str, closed: bool) -> int:
    """Length of the value of a kind at the start of `text`, 0 if there is none or the text goes on as an instruction."""
    match = kind.match(text)
    if not match:
        return 0
    found = match[1].partition(". ")[0].rstrip(" .。:")
    return len(found) if not _INSTRUCTS.search(found) and _fits(text, len(found), closed) else 0


def _fits(text: str, end: int, closed: bool) -> bool:
    rest = text[end:]
    if closed and not rest.strip(" `*/\\"):
        return True
    return bool(_ENDS.match(rest) or not rest) and not _INSTRUCTS.search(rest)


def _sentences(document: Document, number: int) -> Iterator[Cut]:
    line, base = document.lines[number], document.starts[number]
    for begin in document.beginnings(number):
        rest = line[begin:]
        intro = _SENTENCE.match(rest)
        if not intro:
            continue
        after = rest[intro.end() :]
        kind = _SYSTEM if _OS.search(intro[0]) else _WORD if _BRANCH.search(intro[0]) else _PATH
        if length := _value(kind, after, False):
            found = after[:length]
            start = base + begin + intro.end()
            tells = (rest[: intro.end()] + found).strip(" *`")
            yield Cut(start, start + length, NAME, _name(intro[0]), tells, found, _leaves(found, _name(intro[0])))


def _name(intro: str) -> str:
    """What a sentence is about."""
    noun = _NOUN.search(intro)
    return noun[0] if noun else "path"


def _cut(document: Document, field: Field, length: int) -> Cut:
    value = document.text[field.start : field.start + length]
    return Cut(
        field.start, field.start + length, NAME, field.name, f"{field.name}: {value}", value, _leaves(value, field.label)
    )


def _leaves(value: str, name: str) -> str:
    """A path's placeholder says which path, because the path may stand in more than one place."""
    return PLACEHOLDER if not _PATH.match(value) else f"[{name.lower()}, see context]"
