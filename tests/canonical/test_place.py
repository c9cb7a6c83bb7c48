"""Rule `place`: where the agent runs moves; instructions that begin with the same words stay."""

from __future__ import annotations

import pytest

from tests.canonical.desk import DIALECTS, Dialect, alone

MOVES = [
    ("Working directory: /home/mira/lab", "/home/mira/lab"),
    ("- Root: /srv/app", "/srv/app"),
    ("4. Working Directory: `C:\\Users\\mira\\lab`", "C:\\Users\\mira\\lab"),
    ("**Working Directory:** /home/mira/My Lab", "/home/mira/My Lab"),
    ("**Workspace root**: ~/lab/gears", "~/lab/gears"),
    ("<cwd>/home/mira/lab</cwd>", "/home/mira/lab"),
    ("<cwd>\n/home/mira/lab\n</cwd>", "/home/mira/lab"),
    ('<workspace root="/home/mira/lab">', "/home/mira/lab"),
    ("| **Platform** | linux |", "linux"),
    ("| Working directory | /home/mira/lab |", "/home/mira/lab"),
    ('{"cwd": "/home/mira/lab", "style": "plain"}', "/home/mira/lab"),
    ("cwd: /home/mira/lab | branch: trays", "trays"),
    ("CWD=/home/mira/lab", "/home/mira/lab"),
    ("Platform: darwin", "darwin"),
    ("OS Version: Darwin 24.1.0", "24.1.0"),
    ("Operating System: Ubuntu 24.04 (x86_64)", "24.04"),
    ("Shell: /bin/zsh", "zsh"),
    ("Python version: 3.12.1", "3.12.1"),
    ("Current branch: feature/trays-1", "feature/trays-1"),
    ("Hostname: nook-3.lan", "nook-3"),
    ("Is directory a git repo: Yes", "Yes"),
    ("## Working directory\n/home/mira/lab", "/home/mira/lab"),
    ("You are working in /home/mira/lab.", "/home/mira/lab"),
    ("The current working directory is `/home/mira/lab`.", "/home/mira/lab"),
    ("You are on branch trays-2.", "trays-2"),
    # German, French, Spanish, Chinese, Japanese
    ("Arbeitsverzeichnis: /home/mira/lab", "/home/mira/lab"),
    ("Betriebssystem: Linux 6.8", "6.8"),
    ("Das aktuelle Arbeitsverzeichnis ist /home/mira/lab.", "/home/mira/lab"),
    ("Répertoire de travail : /home/mira/lab", "/home/mira/lab"),
    ("Le répertoire de travail est /home/mira/lab.", "/home/mira/lab"),
    ("Directorio de trabajo: /home/mira/lab", "/home/mira/lab"),
    ("El directorio de trabajo es /home/mira/lab.", "/home/mira/lab"),
    ("工作目录：/home/mira/lab", "/home/mira/lab"),
    ("当前分支：trays-3", "trays-3"),
    ("作業ディレクトリ：/home/mira/lab", "/home/mira/lab"),
    ("プラットフォーム: linux", "linux"),
    ("Open file: src\\gear.py", "gear.py"),
    ("Git: branch trays @ 1a2b3c4 (2 files changed)", "1a2b3c4"),
    ("Connected to ops@10.4.0.17 (Debian GNU/Linux 12)", "Debian GNU/Linux 12"),
    ("Running inside container 3f9ac01d77e2 on forge-2.", "forge-2"),
    ("You are currently on branch trays with 3 uncommitted changes.", "3 uncommitted"),
    ("Active library: /Volumes/Card/2026", "/Volumes/Card"),
    ("Screen: 1512x982", "1512x982"),
    ("User location: Port Elling", "Port Elling"),
    ("cwd: '/home/mira/lab'", "/home/mira/lab"),
    ("Platform - linux", "linux"),
    ("Du arbeitest gerade im Ordner C:\\Projekte\\Reiher auf dem Zweig kiste-4.", "kiste-4"),
    ("Vous êtes connecté à la machine web-03 (Debian 12).", "web-03"),
    ("ホスト名はweb-03、OSはDebian 12です。", "web-03"),
    ("Répertoire de travail\u00a0: /home/mira/lab", "/home/mira/lab"),
]

STAYS = [
    "Never push to the main branch.",
    "Branch: always create a new branch",
    "Main branch: never push",
    "Root: /etc must never be touched",
    "Root cause: unknown",
    "Host: never contact other hosts",
    "Platform: macOS only",
    "Working directory: use /tmp for scratch",
    "Directory: src/",
    "You are working in a team.",
    "You are working in /etc only when asked.",
    "Project: Gearbox",
    "Shell: use bash for everything",
    "Status: draft",
    "System: you are a bot",
    "Python: use 3.12",
    "Do not write outside /home/mira/lab.",
    "Example:\nWorking directory: /home/mira/lab",
    "```\ncwd: /home/mira/lab\n```",
    "> cwd: /home/mira/lab",
    "<env>\nYou must never leave this directory.\n</env>",
    "Commit messages: imperative\nBranch names: short",
    "Data dir: /srv/nb/data, read-only",
    "Default folder: /storage/emulated/0/DCIM",
    "Location: Port Elling",
    "Git: use rebase",
    '<workspace path="string, absolute" branch="string, may be empty" />',
    "If the working directory is /home/mira/lab, stop.",
    "Pretend the workspace is /home/mira/lab.",
    "ホスト名はweb-で始めてください。",
    "Connected to 3 devices",
]

GIT = """gitStatus: snapshot at start of session.
Current branch: trays

Main branch (you will usually use this for PRs): main

Status:
 M src/gear.py
?? notes.txt

Recent commits:
5d6e7f8 fix tray
1a2b3c4 add gear table"""

ENV = """<env>
Working directory: /home/mira/lab
Is directory a git repo: Yes
Platform: linux
Some other fact: 7
Today's date: 2026-03-04
</env>"""


@pytest.mark.parametrize(("statement", "value"), MOVES)
def test_where_the_agent_runs_moves_and_is_told(statement: str, value: str) -> None:
    system, note = alone("You are Pelle.\n\n" + statement + "\n\nStay calm.")
    assert value not in system
    assert value in note
    assert system.startswith("You are Pelle.")
    assert system.endswith("Stay calm.")


@pytest.mark.parametrize("statement", STAYS)
def test_instructions_and_examples_stay(statement: str) -> None:
    text = "You are Pelle.\n\n" + statement + "\n\nStay calm."
    assert alone(text) == (text, "")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_in_every_dialect(dialect: Dialect) -> None:
    system, note = alone("You are Pelle.\nWorking directory: /home/mira/lab\nStay calm.", dialect)
    assert "/home/mira" not in system
    assert note == "<context>\nWorking directory: /home/mira/lab\n</context>\n\n"


def test_git_blocks_go_whole_and_advice_beside_them_stays() -> None:
    system, note = alone(f"You are Pelle.\n\nGit advice: write in the imperative.\n\n{GIT}\n\nStay calm.")
    assert system == "You are Pelle.\n\nGit advice: write in the imperative.\n\n[see context]\n\nStay calm."
    assert GIT in note


def test_env_blocks_go_whole_and_their_clock_is_told_on_its_own() -> None:
    system, note = alone(f"You are Pelle.\n{ENV}\nStay calm.")
    assert system == "You are Pelle.\n[see context]\nStay calm."
    assert "Some other fact: 7" in note
    assert "Today's date: 2026-03-04" in note
    assert note.count("2026-03-04") == 1


def test_an_env_block_that_instructs_loses_only_its_facts() -> None:
    block = "<env>\nWorking directory: /home/mira/lab\nYou must never leave it.\n</env>"
    system, note = alone(block)
    assert "You must never leave it." in system
    assert "/home/mira/lab" in note
    assert "/home/mira/lab" not in system


def test_a_moved_path_leaves_its_placeholder_wherever_it_stands() -> None:
    text = (
        "Working directory: /home/mira/lab\nRead /home/mira/lab/notes.md first. Logs: ~/.agent/-home-mira-lab/log.\n"
        "Other: /home/mira/laboratory and /home/mira.\n```\ncd /home/mira/lab\n```"
    )
    system, note = alone(text)
    assert "[working directory, see context]/notes.md" in system
    assert "~/.agent/[working directory, see context]/log" in system
    assert "/home/mira/laboratory and /home/mira." in system
    assert "cd /home/mira/lab\n```" in system  # code is never touched
    assert note.count("/home/mira/lab") == 1


def test_a_path_told_by_a_block_leaves_its_placeholder_too() -> None:
    block = "<env>\nWorking directory: /home/mira/lab{0}\nPlatform: linux\n</env>"
    text = block + "\nRead /home/mira/lab{0}/notes.md and ~/-home-mira-lab{0}."
    system, note = alone(text.format(1))
    assert system == "[see context]\nRead [working directory, see context]/notes.md and ~/[working directory, see context]."
    assert "Working directory: /home/mira/lab1\n" in note
    assert alone(text.format(2))[0] == system


def test_two_folders_leave_the_same_text() -> None:
    text = "Root: {0}\nRead {0}/a.md and {0}.\nSession files: .x/{1}/s\nStay calm."
    one = alone(text.format("/home/mira/lab", "-home-mira-lab"))
    two = alone(text.format("/srv/tovik/gear-box", "-srv-tovik-gear-box"))
    assert one[0] == two[0]
    assert one[1] != two[1]
