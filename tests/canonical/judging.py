"""Judges the canonicaliser by the corpus of minimal pairs (`tests/canonical_corpus`), as its README says."""

from __future__ import annotations

from tests.canonical.desk import Desk, chat, system_of, users_of
from tests.canonical_corpus.corpus import Pair

USER = [("user", "Hello")]


def _played(texts: list[str]) -> list[tuple[str, str]]:
    """(system text, note) of these requests of one route."""
    desk = Desk()
    results = [desk.send(chat(text, USER)) for text in texts]
    return [(system_of(result), users_of(result)[-1].removesuffix("Hello")) for result in results]


def missed(pair: Pair) -> str:
    """Why a volatile statement was not taken out, "" if it was."""
    (one, _), (two, _) = _moved(pair)
    left = [value for value in pair.move.moved if value in one + two]
    return f"{pair.id}: still there {left}" if left else "" if one == two else f"{pair.id}: texts differ"


def damaged(pair: Pair) -> str:
    """What was lost or touched that must stay, "" if nothing."""
    outcomes = _moved(pair)
    for text, (system, note) in zip((pair.move.system, pair.move.system2), outcomes, strict=True):
        gone = [kept for kept in pair.move.kept if kept not in system]
        untold = [value for value in pair.move.moved if value in text and value not in note + system and value[0] != "-"]
        if gone or (untold and pair.rule != "attribution"):
            return f"{pair.id}: gone {gone}, untold {untold}"
    versions = [pair.keep.system, *([pair.keep.system2] if pair.keep.system2 else [])] * 2
    for text, outcome in zip(versions, _played(versions), strict=True):
        if outcome != (text, ""):
            return f"{pair.id}: touched, {outcome[1] or 'no note'} ({pair.keep.why})"
    return ""


def _moved(pair: Pair) -> list[tuple[str, str]]:
    outcomes = _played([pair.move.system, pair.move.system2] * 2)
    return outcomes[2:] if pair.rule == "memory" else outcomes[:2]
