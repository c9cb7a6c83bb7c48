import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gateway.engine.extra import ExtraMissing, require
from gateway.engine.gguf import SHAPES, Model, cached, main, write
from tests.support.engine import ModelFile, StartEngine, needs_engine

QUESTION = {"messages": [{"role": "user", "content": "Which lights are on?"}], "temperature": 0}


@needs_engine
@pytest.mark.parametrize("kind", sorted(set(SHAPES) - {"bench"}))
def test_the_same_arguments_give_the_same_bytes(kind: str, tmp_path: Path) -> None:
    write(Model(kind), tmp_path / "here.gguf")
    command = [sys.executable, "-m", "gateway.engine.gguf", kind, str(tmp_path / "there.gguf")]
    subprocess.run(command, check=True, capture_output=True, timeout=50)  # another process: another hash seed
    assert (tmp_path / "here.gguf").read_bytes() == (tmp_path / "there.gguf").read_bytes()


@needs_engine
def test_another_seed_is_another_model_of_the_same_shape(model_file: ModelFile) -> None:
    one, other = model_file(Model("tiny")).read_bytes(), model_file(Model("tiny", seed=2)).read_bytes()
    assert len(one) == len(other)
    assert one != other


@needs_engine
def test_layers_and_context_are_taken(start_engine: StartEngine, model_file: ModelFile) -> None:
    deeper = Model("tiny", layers=3, context=4096)
    assert model_file(deeper).stat().st_size > model_file().stat().st_size
    settings = start_engine("-np", "1", model=deeper).get("/props")["default_generation_settings"]
    assert settings["n_ctx"] == 4096


@needs_engine
@pytest.mark.parametrize("kind", ["tiny", "hybrid", "hybrid-swa"])
def test_answers_are_printable_repeatable_and_of_the_length_asked_for(kind: str, start_engine: StartEngine) -> None:
    server = start_engine("-np", "1", "-c", "2048", model=Model(kind))
    replies = [server.post("/v1/chat/completions", QUESTION | {"max_tokens": 300}) for _ in range(2)]
    texts = [reply["choices"][0]["message"]["content"] for reply in replies]
    assert texts[0] == texts[1]
    assert texts[0].isascii()
    assert texts[0].isprintable()
    assert [reply["choices"][0]["finish_reason"] for reply in replies] == ["length", "length"]
    assert [reply["usage"]["completion_tokens"] for reply in replies] == [300, 300]


@needs_engine
def test_answers_depend_on_prompt_and_seed(start_engine: StartEngine) -> None:
    def answer(seed: int, text: str) -> str:
        body = {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 20}
        return str(servers[seed].post("/v1/chat/completions", body)["choices"][0]["message"]["content"])

    servers = {seed: start_engine("-np", "1", "-c", "2048", model=Model("tiny", seed=seed)) for seed in (1, 2)}
    answers = {answer(seed, text) for seed in servers for text in ("Good morning.", "Good night.")}
    assert len(answers) == 4


@needs_engine
def test_the_cache_writes_once_and_keeps_models_apart(tmp_path: Path) -> None:
    first = cached(Model("tiny"), tmp_path / "new" / "models")
    before = first.stat()
    assert cached(Model("tiny"), tmp_path / "new" / "models") == first
    assert first.stat() == before
    assert cached(Model("tiny", tools="last"), tmp_path / "new" / "models") != first
    assert {path.suffix for path in first.parent.iterdir()} == {".gguf"}  # nothing half-written is left


@needs_engine
def test_writers_at_the_same_time_do_not_collide(tmp_path: Path) -> None:
    found: list[Path] = []
    writers = [threading.Thread(target=lambda: found.append(cached(Model("tiny"), tmp_path))) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    assert len(found) == 3
    assert list(tmp_path.iterdir()) == [found[0]]
    write(Model("tiny"), tmp_path / "direct.gguf")
    assert found[0].read_bytes() == (tmp_path / "direct.gguf").read_bytes()


@needs_engine
def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tiny", str(tmp_path / "missing" / "model.gguf")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1


def test_what_is_missing_is_named_with_the_way_to_install_it() -> None:
    require("json")
    with pytest.raises(ExtraMissing, match=r"^no_such_module_1 is not installed.*pip install 'warmgate\[demo\]'$"):
        require("json", "no_such_module_1")
