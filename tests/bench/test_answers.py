import json
import subprocess
import sys
from io import StringIO
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from bench.answers import CASES, Outcome, as_document, canonical, is_right, lost, show
from bench.answers_data import SCENES, Question, Scene
from tests.support.engine import ModelFile, needs_engine

ROOT = Path(__file__).parents[2]
ANSWERS = [sys.executable, "-m", "bench.answers"]


def outcome(kind: str, original_right: bool, canonical_right: bool) -> Outcome:
    return Outcome("scene", kind, "Which?", "this", "[b]this[/b]", "that", original_right, canonical_right)


def test_there_are_forty_questions_and_several_facts_in_each_text() -> None:
    assert len(CASES) == 40
    assert min(len(scene.questions) for scene in SCENES) >= 3
    assert max(len(scene.system.splitlines()) for scene in SCENES) <= 25


@pytest.mark.parametrize(("scene", "question"), CASES, ids=[question.text for _, question in CASES])
def test_every_fact_is_moved_from_the_system_text_into_the_note(scene: Scene, question: Question) -> None:
    fact = question.accepted[0]
    assert fact in scene.system
    system, user = (message["content"] for message in orjson.loads(canonical(scene, question))["messages"])
    assert fact not in system
    assert fact in user
    assert user.endswith(question.text)


@pytest.mark.parametrize(("scene", "question"), CASES, ids=[question.text for _, question in CASES])
def test_no_question_gives_its_answer_away(scene: Scene, question: Question) -> None:
    assert not is_right(question.text, question)
    assert scene.system.count(question.accepted[0]) == 1


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("It is 7:46 now.", True),
        ("The time is `07:46:12`.", True),
        ("It is 17:46.", False),
        ("It is 7:463.", False),
        ("It was **NOON,\n sharp**", True),
        ("", False),
    ],
)
def test_whole_words_count_whatever_their_case(answer: str, right: bool) -> None:
    assert is_right(answer, Question("time", "When?", ("07:46:12", "7:46", "noon, sharp"))) is right


def test_only_fewer_right_answers_are_a_loss() -> None:
    won, kept, missed = outcome("date", False, True), outcome("date", True, True), outcome("time", True, False)
    assert not lost([won, missed])
    assert not lost([kept])
    assert lost([kept, missed])


def test_totals_by_kind_and_together() -> None:
    document = as_document([outcome("date", True, True), outcome("date", False, True), outcome("time", True, False)])
    assert (document["questions"], document["original_right"], document["canonical_right"]) == (3, 2, 2)
    assert document["kinds"]["date"] == {"questions": 2, "original_right": 1, "canonical_right": 2}


def test_the_table_ends_with_the_totals() -> None:
    output = StringIO()
    show([outcome("date", True, False)], Console(width=100, file=output))
    text = output.getvalue()
    assert "Which?" in text
    assert text.endswith("Right of 1: 1 from the original, 0 from the canonical form.\n")


@needs_engine
def test_the_command_asks_a_real_server(model_file: ModelFile) -> None:
    command = [*ANSWERS, "--limit", "2", "--json", "--check", "--weights", str(model_file())]
    run = subprocess.run(command, capture_output=True, text=True, timeout=50, cwd=ROOT)
    assert run.stderr == ""
    document = json.loads(run.stdout)
    assert [one["question"] for one in document["answers"]] == [question.text for _, question in CASES[:2]]
    assert all(one["original"] and one["canonical"] for one in document["answers"])
    assert run.returncode == (document["canonical_right"] < document["original_right"])
