"""Rule `place`, whole blocks: `<env>` and its kin, git status and recent commits. Pure.

A block goes as a whole only if all of it describes: one sentence that tells the model what to do, and it stays (its labelled
lines are then moved one by one).
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.canonical import patterns
from gateway.canonical.cuts import SEAM, Cut
from gateway.canonical.place import NAME
from gateway.canonical.text import Document

TAGS = (
    "env|environment|environment_context|environment_details|environment_info|env_info|system_info|system_information|workspace_info|\
git_status|gitstatus|git-status|git_context|git_info|runtime_info|host_info|user_environment|current_environment|working_environment|\
session_context|git|workspace|project_layout|file_tree|directory_tree|directory_structure"
)

_OPEN = patterns.compile(rf"(?i)^\s*<({TAGS})>\s*$")
_GIT_LABEL = patterns.compile(
    r"(?i)^\s*(?:[-*]\s+|#{1,6}\s+)?(?:\*\*)?(git ?_?status|gitstatus|current branch|branch|main branch[^:\n]*"
    r"|default branch|status|recent commits?|"
    r"git user|last commits?|latest commits?|recent git commits|commit history|untracked files|untracked|staged"
    r"|unstaged|modified|"
    r"modified files|changed files|changes not staged[^:\n]*|changes to be committed|working tree|upstream|remote"
    r"|uncommitted changes|"
    r"git branch|git log|aktueller branch|letzte commits|branche actuelle|derniers commits|rama actual"
    r"|[uú]ltimos commits|最近提交|当前分支|最近のコミット|現在のブランチ|stash(?:es)?)(?:\*\*)?\s*(?:\([^()\n]*\))?\s*[:：]"
)
_GIT_HEADING = patterns.compile(
    r"(?i)^\s*#{1,6}\s+(?:git status|recent commits|git|repository status|git state)\s*$|(?i)^\W{2,}\s*(?:git status"
    r"|recent commits)\s*\W{2,}$"
)
_GIT_FACT = patterns.compile(
    r"^\s*(?:[-*]\s+)?(?:(?:[ MADRCUT?!]{2}|[MADRCUT]|\?\?)\s+[^\s]+(?:\s+->\s+\S+)?\s*$|`?[0-9a-f]{7,40}`?\s+\S)"
    r"|^\s*(?:On branch \S+|nothing to commit.*|Your branch is .*|\(?clean\)?|\(?no (?:uncommitted )?changes\)?"
    r"|working tree clean|(?:ahead|behind)(?: by)? \d+.*|## \S+\.\.\.\S+.*)\s*$"
    r"|^\s+(?:modified|new file|deleted|renamed|typechange):\s+\S|^\s*\(use \"git .*\)\s*$|^\s*\(none\)\s*$"
)
_ASKS = patterns.compile(
    r"(?i)\b(?:must|never|always|should|do not|don't|please|you (?:can|may|will|are)|prefer|avoid|make sure|remember)\b"
)

HINTS = (
    rf"(?i)^\s*</?(?:{TAGS})>\s*$",
    r"(?i)git ?_?status|letzte commits|derniers commits|[uú]ltimos commits|最近提交|最近のコミット|^#+ git$"
    r"|recent (?:git )?commits?|latest commits?|last commits?|(?:^\s*(?:[-*]\s+|#{1,6}\s+)?(?:\*\*)?(?:current |git "
    r"|aktueller )?branch\s*(?:\*\*)?[:：])|^On branch",
)


def cuts(document: Document, lines: list[int]) -> Iterator[Cut]:
    """Whole blocks that describe where the agent runs. `lines`: those that the hints hit."""
    done = -1
    for number in lines:
        if number <= done or not document.prose(number):
            continue
        last = _tagged(document, number) or _git(document, number)
        if last and not document.shown(number):
            done = last
            yield _cut(document, number, last)


def _tagged(document: Document, number: int) -> int:
    """The last line of a tagged block that begins here, 0 if there is none or it does more than describe."""
    opening = _OPEN.match(document.lines[number])
    if not opening:
        return 0
    closing = f"</{opening[1]}>"
    for last in range(number + 1, len(document.lines)):
        line = document.lines[last].strip()
        if line == closing:
            return last
        if not document.prose(last) or _ASKS.search(line):
            return 0
    return 0


def _git(document: Document, number: int) -> int:
    """The last line of a block of git's own words that begins here, 0 if there is none."""
    if not (_GIT_LABEL.match(document.lines[number]) or _GIT_HEADING.match(document.lines[number]) or _fact(document, number)):
        return 0
    last, facts = number, 0
    for at in range(number, len(document.lines)):
        if document.blank(at):
            continue
        fact = _fact(document, at)
        if not fact and not (at == number or _GIT_LABEL.match(document.lines[at])):
            break
        if not fact and at > number and _ASKS.search(document.lines[at].partition(":")[2]):
            break
        facts += fact
        last = at
    return last if facts else 0


def _fact(document: Document, number: int) -> bool:
    return document.prose(number) and bool(_GIT_FACT.match(document.lines[number]))


def _cut(document: Document, first: int, last: int) -> Cut:
    start, end = document.starts[first], document.starts[last] + len(document.lines[last])
    tag = _OPEN.match(document.lines[first])
    return Cut(start, end, NAME, tag[1] if tag else "git status", document.text[start:end], "", SEAM)
