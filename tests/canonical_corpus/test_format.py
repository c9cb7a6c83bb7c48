"""Checks the corpus itself: that each pair can be judged as README.md says. The canonicaliser is not run here."""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher

import pytest

from tests.canonical_corpus.corpus import PAIRS, SECOND, Pair, load

FIRST_PAIRS, SECOND_PAIRS = load(PAIRS), load(SECOND)
CORPUS = FIRST_PAIRS + SECOND_PAIRS

PAIRS_PER_RULE = {"clock": 70, "place": 50, "ids": 25, "counters": 25, "memory": 22, "attribution": 8}
SECOND_PER_RULE = {"clock": 45, "place": 35, "ids": 21, "counters": 25, "memory": 18, "attribution": 6}
LANGUAGES = {"en", "de", "fr", "es", "zh", "ja"}
MIN_CLOCK_PAIRS_PER_LANGUAGE = 7
LINES = range(3, 13)  # non-blank lines of a system text
MIN_VALUE_CHARS = 3  # shorter values could occur in a placeholder by chance
MIN_LIKENESS = 0.3  # share of equal characters, as SequenceMatcher counts them

# What could tempt a canonicaliser into touching a keep side, by rule: words of the labels, and shapes of the values.
TRIGGERS = {
    "clock": r"\d{4}[-/.年]\d|\d{1,2}[:h]\d{2}|\d{2}[./]\d{2}[./]\d{4}|\b\d{10,13}\b|\b20\d\d\b|today|now|current|date|time"
    r"|heute|jetzt|datum|uhr|schreiben den|aujourd|maintenant|actuel|heure|nous sommes|hoy|ahora|fecha|hora"
    r"|ruhetag|截止|今天|现在|当前|日期|时间|今日|現在|日付|日時|いま|時刻|年\d{1,2}月",
    "place": r"director|folder|root|branch|commit|\bhost|server|platform|workspace|git|status|toolchain|environment|home/"
    r"|home:|library:|\bos\b|shared|screen|python|container|connect|model|shell|weather|path|anmeldung"
    r"|verzeichnis|ordner|rechner|plattform|répertoire|dossier|branche|machine|directorio|carpeta|rama|servidor|plataforma|raíz"
    r"|目录|分支|主机|ディレクトリ|フォルダ|ブランチ|ホスト",
    "ids": r"run:|guild|seed|job|queue|\bnr\.|ID|\bids?\b"
    r"|-id\b|_id\b|nonce|session|request|trace|thread|cache-buster|kennung|nummer|nachrichten"
    r"|identifiant|requete|numéro|solicitud|编号|会话|请求|番号|セッション",
    "counters": r"\bstep|turn|temp|limit|messages|quota|iteration|bater|umbral|actividad"
    r"|token|context|usage|uptime|\bup for\b|load|disk|battery|pid|budget|\bleft\b|remaining|readings|per day|jetons"
    r"|auslastung|akku|betriebszeit|charge|memoire|contexte|batería|restantes|令牌|运行|剩余|トークン|バッテリー|稼働",
    "memory": r"mémoire|relevant|history|user_|dokumente"
    r"|memor|know|known|facts|profile|retrieved|passage|document|conversation|remember"
    r"|erinnerung|nutzerprofil|gefundene|textstelle|souvenir|doit savoir|recuerdo|perfil|用户|记忆|ユーザー|記憶",
    "attribution": r"x-anthropic-billing-header",
}


def without(text: str, values: tuple[str, ...]) -> str:
    """The text without the values, white space collapsed: a value may come and go with its line."""
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, "")
    return " ".join(text.split())


def every_pair() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("pair", CORPUS, ids=lambda pair: pair.id)


def test_ids_are_unique() -> None:
    assert [pair_id for pair_id, count in Counter(pair.id for pair in CORPUS).items() if count > 1] == []


def test_distribution_over_rules() -> None:
    assert Counter(pair.rule for pair in FIRST_PAIRS) == PAIRS_PER_RULE
    assert Counter(pair.rule for pair in SECOND_PAIRS) == SECOND_PER_RULE


def test_clock_speaks_every_language() -> None:
    pairs = Counter(pair.language for pair in CORPUS if pair.rule == "clock")
    assert set(pairs) == LANGUAGES
    assert min(pairs.values()) >= MIN_CLOCK_PAIRS_PER_LANGUAGE


def test_no_text_occurs_twice() -> None:
    texts = Counter(text for pair in CORPUS for text in pair.texts())
    assert [text for text, count in texts.items() if count > 1] == []


@every_pair()
def test_id_names_rule_and_language(pair: Pair) -> None:
    assert pair.language in LANGUAGES
    assert re.fullmatch(rf"{pair.rule}-{pair.language}-\d\d", pair.id)


@every_pair()
def test_texts_have_the_length_of_a_short_prompt(pair: Pair) -> None:
    for text in pair.texts():
        assert sum(1 for line in text.split("\n") if line.strip()) in LINES
        assert text == text.strip()


@every_pair()
def test_moved_values_occur(pair: Pair) -> None:
    move = pair.move
    assert any(value in move.system for value in move.moved)
    assert any(value in move.system2 for value in move.moved)
    for value in move.moved:
        assert value in move.system or value in move.system2
        assert len(value) >= MIN_VALUE_CHARS
        assert value == value.strip()
        assert "\n" not in value


@every_pair()
def test_versions_differ_only_in_moved_values(pair: Pair) -> None:
    move = pair.move
    assert move.system != move.system2
    assert without(move.system, move.moved) == without(move.system2, move.moved)


@every_pair()
def test_kept_text_stays_in_both_versions(pair: Pair) -> None:
    move = pair.move
    assert move.kept
    for text in move.kept:
        assert text in move.system
        assert text in move.system2
        assert not any(value in text for value in move.moved)


@every_pair()
def test_keep_side_has_a_trigger(pair: Pair) -> None:
    assert re.search(TRIGGERS[pair.rule], pair.keep.system, re.IGNORECASE)


@every_pair()
def test_keep_side_resembles_the_move_side(pair: Pair) -> None:
    likeness = SequenceMatcher(None, pair.move.system, pair.keep.system, autojunk=False).ratio()
    assert likeness >= MIN_LIKENESS


@every_pair()
def test_keep_side_says_why(pair: Pair) -> None:
    assert pair.keep.why.endswith((".", "。"))
    assert "\n" not in pair.keep.why


@every_pair()
def test_memory_keep_sides_come_in_two_versions(pair: Pair) -> None:
    later = pair.keep.system2
    assert (later is not None) == (pair.rule == "memory")
    assert later != pair.keep.system


@every_pair()
def test_attribution_stands_first_only_where_it_moves(pair: Pair) -> None:
    if pair.rule == "attribution":
        first = pair.move.system.splitlines()[0]
        assert first in pair.move.moved
        assert first.startswith("x-anthropic-billing-header: ")
        assert not pair.keep.system.startswith("x-anthropic-billing-header: ")
