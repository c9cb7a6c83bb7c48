"""Rule `place`: where the agent runs. Pure.

Labelled working directories, roots, branches, hosts, platforms and toolchains; sentences and blocks are in the files beside
this. A value must look like what its label says (`Root:` a path, `Branch:` one word), so that an instruction with the same
first words stays ("Branch: always create a new one").
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.canonical import patterns
from gateway.canonical.cuts import Cut
from gateway.canonical.fields import Field, fields, normal, pattern
from gateway.canonical.place_values import FILE, FLAG, HEAD, PATH, SIZE, SYSTEM, TOWN, WORD, leaves, length
from gateway.canonical.text import Document

NAME = "place"


def _labels(text: str) -> frozenset[str]:
    return frozenset(normal(label) for label in text.replace("\n", "|").split("|") if label.strip())


PATHS = _labels("""
    working directory|current working directory|cwd|pwd|workdir|work dir|working dir|current directory|current dir
    current folder
    working folder|workspace|workspace root|workspace folder|workspace folders|workspace directory|workspace path|workspace dir
    project root|project directory|project path|project dir|project folder|project|root|root directory|root path|root dir
    repo root
    repository root|repository path|repo path|repo|repository|git root|git repository root|directory|folder|home|home directory
    home dir|user home directory|user home|sandbox root|worktree|git worktree|primary working directory
    additional working directories|session directory
    scratch directory|scratchpad directory|temp directory|temporary directory|tmp dir|cwd path|agent workspace
    start directory|initial directory
    initial working directory|current workspace|current workspace directory|current project|current file|open file|active file
    arbeitsverzeichnis|aktuelles arbeitsverzeichnis|aktuelles verzeichnis|projektverzeichnis|projektordner|arbeitsordner
    stammverzeichnis
    arbeitsbereich|verzeichnis|projektpfad|wurzelverzeichnis|heimatverzeichnis|aktueller ordner|projektwurzel
    répertoire de travail|répertoire de travail actuel|répertoire courant|répertoire actuel|dossier de travail|dossier courant
    racine du projet|dossier du projet|répertoire du projet|espace de travail|répertoire|dossier actuel
    directorio de trabajo|directorio de trabajo actual|directorio actual|carpeta de trabajo|carpeta actual|raíz del proyecto
    directorio del proyecto|carpeta del proyecto|espacio de trabajo|directorio
    工作目录|当前工作目录|当前目录|项目根目录|项目目录|工作区|工作区根目录|工作路径|项目路径|工作目錄|當前目錄|根目录|主目录
    作業ディレクトリ|現在の作業ディレクトリ|カレントディレクトリ|現在のディレクトリ|ワークスペース|プロジェクトルート
    プロジェクトのルート|作業フォルダ
    プロジェクトディレクトリ|ルートディレクトリ|ワーキングディレクトリ|ホームディレクトリ
""")
WORDS = _labels("""
    git branch|branch|current branch|current git branch|active branch|main branch|default branch|base branch|git user
    git ref|head
    running on host|running on|on host|upstream|tracking|server|servidor|serveur|knoten|host|hostname|host name|machine
    machine name|computer|computer name|container|container id|node|node name|server name|pod
    git commit|commit|current commit|head commit|git sha|last commit|latest commit
    zweig|aktueller zweig|aktueller branch|rechner|rechnername|rechner name
    branche|branche actuelle|branche git|branche courante|hôte|nom d'hôte|machine hôte|rama|rama actual|rama de git|equipo
    nombre del equipo
    分支|当前分支|git 分支|git分支|主机|主机名|機器名稱|当前git分支|ブランチ|現在のブランチ|git ブランチ|gitブランチ|ホスト
    ホスト名
""")
SYSTEMS = _labels("""
    platform|os|host|current os|host os|user os|user shell|os version|operating system|os name|os type|system|kernel
    kernel version|arch|architecture|cpu architecture|cpu arch
    shell|default shell|user shell|shell path|distro|distribution|terminal|runtime|runtime version|toolchain|compiler
    python|python version
    node version|node.js version|node js version|go version|rust version|java version|ruby version|git version|npm version
    package manager|interpreter|python interpreter|virtual env|virtualenv|venv|active environment|conda environment|gpu|host os
    betriebssystem|plattform|systemversion|architektur|système d'exploitation|système|plateforme|sistema operativo
    plataforma|arquitectura
    sistema|systeme|entorno|system info|running on os
    操作系统|平台|系统版本|系统|架构|内核|终端|默认 shell|作業系統|オペレーティングシステム|プラットフォーム|アーキテクチャ
    シェル|カーネル
""")
FLAGS = _labels("""
    is directory a git repo|is git repo|is git repository|git repo|git repository|is a git repository|in git repo|git|git dirty
    is directory a git repository|git repo?|inside git repo|git status|working tree|git clean|is directory a git repo?
    sandbox|is sandboxed|in container|inside container
""")

FILES = _labels("""
    current file|open file|active file|focused file|currently open file|selected file|aktuelle datei|offene datei
    geöffnete datei
    fichier actuel|fichier ouvert|archivo actual|archivo abierto|当前文件|打开的文件|現在のファイル|開いているファイル
""")
SIZES = _labels("screen|screen size|screen resolution|resolution|viewport|viewport size|window size|display size|terminal size")
HEADS = _labels("git|git head|git state|git info|git status|repo state|repository state|vcs|checkout")
TOWNS = _labels("""
    user location|current location|user current location|user's current location|device location|aktueller standort
    standort des nutzers|position actuelle|lieu actuel|ubicación actual|ubicación del usuario|当前位置|用户位置|現在地
""")
KINDS = (
    (PATHS, PATH), (FILES, FILE), (SYSTEMS, SYSTEM), (WORDS, WORD), (FLAGS, FLAG), (SIZES, SIZE), (HEADS, HEAD), (TOWNS, TOWN)
)  # fmt: skip
"""Labels and what their values look like."""

_FOLDER = patterns.compile(
    r"(?:^| )(?:directory|dir|folder|path|root|cwd|verzeichnis|ordner|repertoire|dossier|directorio|carpeta)$"
    r"|(?:目录|路径|ディレクトリ|フォルダ|パス)$|^(?:current|active|open|opened|selected|mounted) \pL+$"
)
"""Any other label that names a folder: its value must be a whole absolute path."""

_CONSTANT = patterns.compile(
    r"\b(?:default|fallback|backup|shared|archive|cache|install\w*|allowed|forbidden|protected|ignored|excluded|system|public|global"
    r"|standard|geteilt\w*|partag\w*|compartid\w*|predeterminad\w*|par defaut)\b|默认|共享|備份|备份|既定|共有"
)
"""Folders that are the same in every session."""

_INSTALLED = patterns.compile(
    r"^(?:/(?:usr|etc|bin|sbin|opt|var|lib\w*|dev|proc|sys|boot)\b|(?i:[a-z]:[\\/](?:windows|program)))"
)
"""Where programs live, which is the same in every session."""

HINTS = (
    pattern(frozenset[str]().union(*(labels for labels, _ in KINDS))),
    r"(?i)(?:current|active|open|opened|selected|mounted) \pL+(?:\*\*|`)?\s*[:：=|]\s*(?:~|/|[a-z]:[\\/])",
    r"(?i)(?:directory|dir|folder|path|root|cwd|verzeichnis|ordner|r[ée]pertoire|dossier|directorio|carpeta|目录|路径"
    r"|ディレクトリ|フォルダ)"
    r"(?:\*\*|`|\")?\s*[:：=|]\s*(?:\*\*|`|\")*\s*(?:~|/|[a-z]:[\\/])",
)


def cuts(document: Document, lines: list[int]) -> Iterator[Cut]:
    """Labelled places. `lines`: those that the hints hit."""
    for number in lines:
        for field in fields(document, number):
            if (size := _size(document, field)) and not document.shown(field.line):
                value = document.text[field.start : field.start + size]
                tells = f"{field.name}: {value}"
                yield Cut(field.start, field.start + size, NAME, field.name, tells, value, leaves(value, field.label))


def _size(document: Document, field: Field) -> int:
    """Length of the value of a label that this rule knows, 0 if it does not look like one."""
    text = document.plain[field.start : field.end]
    if field.label == "location" and "user" not in field.name.lower():
        return 0  # of a shop, an office: the same in every session
    for labels, kind in KINDS:
        if field.label in labels and (size := length(kind, text, field.closed)):
            return size
    if not _FOLDER.search(field.label) or _CONSTANT.search(field.label) or _INSTALLED.match(text):
        return 0
    return length(PATH, text, field.closed)
