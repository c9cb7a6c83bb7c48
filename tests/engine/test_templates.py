from typing import Any

import pytest

from gateway.engine.gguf import Model
from tests.support.engine import StartEngine, needs_engine

pytestmark = needs_engine

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
SYSTEM, USER = {"role": "system", "content": "SYSTEM TEXT"}, {"role": "user", "content": "USER TEXT"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sea"}'}}
USER_TURN = "<|im_start|>user\nUSER TEXT<|im_end|>\n"
ANSWER = "<|im_start|>assistant\n"


@pytest.fixture
def rendered(start_engine: StartEngine) -> Any:
    """The prompt as the real server renders it."""

    def render(place: Any, **body: Any) -> str:
        server = start_engine("-np", "1", "-c", "1024", model=Model("tiny", tools=place))
        return str(server.post("/apply-template", body)["prompt"])

    return render


@pytest.mark.parametrize(("place", "first", "second"), [("first", '"look"', "SYSTEM TEXT"), ("last", "SYSTEM TEXT", '"look"')])
def test_where_the_tools_stand(place: str, first: str, second: str, rendered: Any) -> None:
    prompt = rendered(place, messages=[SYSTEM, USER], tools=[TOOL])
    assert prompt.index(first) < prompt.index(second) < prompt.index(USER_TURN)
    assert prompt.startswith("<|im_start|>system\n")
    assert prompt.endswith("<|im_end|>\n" + USER_TURN + ANSWER)


@pytest.mark.parametrize("place", ["first", "last"])
def test_without_tools_both_are_plain_chatml(place: str, rendered: Any) -> None:
    assert rendered(place, messages=[USER]) == USER_TURN + ANSWER
    assert rendered(place, messages=[SYSTEM, USER]) == "<|im_start|>system\nSYSTEM TEXT<|im_end|>\n" + USER_TURN + ANSWER


def test_a_tool_loop_is_rendered_in_order(rendered: Any) -> None:
    called = {"role": "assistant", "content": "", "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "RESULT"}
    prompt = rendered("first", messages=[USER, called, result])
    assert prompt.startswith(USER_TURN + '<|im_start|>assistant\n\n<tool_call>\n{"name": "look", "arguments": ')
    assert prompt.endswith("}\n</tool_call><|im_end|>\n<|im_start|>tool\nRESULT<|im_end|>\n" + ANSWER)
