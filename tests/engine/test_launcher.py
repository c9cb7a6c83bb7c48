import subprocess
import sys

import pytest

from tests.support.engine import ModelFile, StartEngine, needs_engine

SYSTEM = {"role": "system", "content": "You look after the garden, the greenhouse and the pond. " * 40}


def launch(*arguments: str, prelude: str = "pass") -> subprocess.CompletedProcess[str]:
    code = f"import sys; {prelude}; from gateway.engine.launcher import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=30)


@needs_engine
def test_a_missing_model_is_one_line() -> None:
    run = launch("-m", "no-such.gguf", "--port", "0")
    assert run.returncode == 1
    assert run.stderr == "error: no such model file: 'no-such.gguf'; give one with -m FILE.gguf\n"


def test_a_missing_wheel_is_one_line_with_the_way_to_install_it() -> None:
    run = launch("-m", "any.gguf", prelude="sys.modules['xllamacpp'] = None")
    assert run.returncode == 1
    assert run.stderr.startswith("error: xllamacpp is not installed;")
    assert run.stderr.endswith("pip install 'warmgate[demo]'\n")
    assert run.stderr.count("\n") == 1


@needs_engine
def test_a_file_that_is_no_model_is_told_once_beside_the_log() -> None:
    """Not always in the last line: the wheel's log has a thread of its own, which may still be writing."""
    run = launch("-m", __file__, "--port", "0")
    assert run.returncode == 1
    assert run.stderr.count("error: the server did not start") == 1
    assert "Traceback" not in run.stderr


def test_an_unknown_flag_is_a_usage_error() -> None:
    assert launch("--no-such-flag").returncode == 2


@needs_engine
def test_flags_reach_the_server(start_engine: StartEngine, model_file: ModelFile) -> None:
    server = start_engine(
        "-c", "8192", "-np", "3", "--alias", "garden", "--metrics", "--slot-save-path", str(model_file().parent)
    )
    props = server.get("/props")
    assert props["total_slots"] == 3
    assert props["default_generation_settings"]["n_ctx"] == 2816  # 8192 / 3, rounded up to whole pages of 256
    assert [model["id"] for model in server.get("/v1/models")["data"]] == ["garden"]
    assert len(server.get("/slots")) == 3
    assert server.post("/slots/0?action=erase", {})["n_erased"] == 0  # 501 without --slot-save-path


@needs_engine
@pytest.mark.parametrize(("flag", "kept"), [("--cache-idle-slots", False), ("--no-cache-idle-slots", True)])
def test_switches_have_a_negative_form(flag: str, kept: bool, start_engine: StartEngine) -> None:
    """With unified KV, idle slots are emptied into the RAM cache as soon as another one starts, unless that is switched off."""
    server = start_engine("-c", "8192", "-np", "2", "--kv-unified", flag)
    body = {"messages": [SYSTEM, {"role": "user", "content": "Hello."}], "max_tokens": 1}
    server.post("/v1/chat/completions", body | {"id_slot": 0})
    server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Other."}], "max_tokens": 1, "id_slot": 1})
    again = server.post("/v1/chat/completions", body | {"id_slot": 0})
    assert (again["timings"]["cache_n"] > 100) is kept
