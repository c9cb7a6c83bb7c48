"""Rule `tools`: one order for tools and schema keywords, every value as it was."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from gateway.canonical.settings import Settings
from tests.canonical.desk import Desk, anthropic, chat, ollama, responses

USER = [("user", "Hello")]


def chat_tool(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "Does one thing.", "parameters": schema}}


def flat_tool(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "name": name, "description": "Does one thing.", "parameters": schema}


def anthropic_tool(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": "Does one thing.", "input_schema": schema}


SHAPES = [(chat, chat_tool), (ollama, chat_tool), (responses, flat_tool), (anthropic, anthropic_tool)]
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def sent(desk: Desk, dialect: Any, tools: list[Any]) -> list[Any]:
    path, body = dialect("You are Pelle.", USER)
    result = desk.send((path, {**body, "tools": tools}))
    return orjson.loads(result.body)["tools"]  # type: ignore[no-any-return]


def shuffled(value: Any) -> Any:
    """The same JSON with the keys of every object the other way round."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return [shuffled(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("dialect", "tool"), SHAPES)
def test_tools_go_by_name(dialect: Any, tool: Any) -> None:
    tools = [tool(name, SCHEMA) for name in ("zeta", "alpha", "mu")]
    assert sent(Desk(), dialect, tools) == [tools[1], tools[2], tools[0]]


@pytest.mark.parametrize(("dialect", "tool"), SHAPES)
def test_key_order_of_schemas_is_the_same_for_every_spelling(dialect: Any, tool: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string", "description": "Name"}, "at": {"type": ["string", "null"], "default": None}},
        "required": ["title"],
        "additionalProperties": False,
    }
    desk = Desk()
    one = json.dumps(sent(desk, dialect, [tool("add", schema)]))
    two = json.dumps(sent(desk, dialect, shuffled([tool("add", schema)])))
    assert one == two


def test_the_order_of_properties_is_kept_and_comes_back_as_first_seen() -> None:
    desk = Desk()

    def names(order: str) -> list[str]:
        properties = {name: {"type": "string"} for name in order}
        (tool,) = sent(desk, chat, [chat_tool("add", {"type": "object", "properties": properties})])
        return list(tool["function"]["parameters"]["properties"])

    assert names("cab") == ["c", "a", "b"]
    assert names("abc") == ["c", "a", "b"]
    assert names("dcab") == ["d", "c", "a", "b"]  # another set has an order of its own


def test_values_and_orders_that_are_data_stay() -> None:
    schema = {
        "required": ["z", "a"],
        "properties": {"z": {"enum": ["b", "a"], "default": {"y": 1, "x": 2}, "examples": [{"d": 1, "c": 2}]}, "a": True},
        "type": "object",
        "x-order": {"q": 1, "p": 2},
    }
    (tool,) = sent(Desk(), chat, [chat_tool("add", schema)])
    new = tool["function"]["parameters"]
    assert new == schema
    assert json.dumps(new["properties"]["z"]["default"]) == '{"y": 1, "x": 2}'
    assert json.dumps(new["properties"]["z"]["examples"]) == '[{"d": 1, "c": 2}]'
    assert json.dumps(new["x-order"]) == '{"q": 1, "p": 2}'
    assert list(new) == ["type", "properties", "required", "x-order"]


def test_schemas_inside_schemas_are_ordered_too() -> None:
    inner = {"properties": {"a": {}}, "type": "object"}
    schema = {"anyOf": [inner], "items": inner, "$defs": {"b": inner}, "not": inner, "type": "object"}
    (tool,) = sent(Desk(), chat, [chat_tool("add", schema)])
    new = tool["function"]["parameters"]
    assert [list(one) for one in (new["anyOf"][0], new["items"], new["$defs"]["b"], new["not"])] == [["type", "properties"]] * 4


def test_numbers_keep_their_spelling() -> None:
    raw = (
        b'{"model":"m","messages":[{"role":"user","content":"hi"}],"temperature":1.10,"tools":[{"type":"function","function":'
        b'{"parameters":{"properties":{"n":{"default":1.0,"maximum":12345678901234567890123,"multipleOf":1e-7}},"type":"object"},'
        b'"name":"seek"}}]}'
    )
    body = Desk().send(("/v1/chat/completions", orjson.loads(raw)), raw=raw).body
    for spelling in (b'"temperature":1.10,', b'"default":1.0,', b'"maximum":12345678901234567890123', b'"multipleOf":1e-7'):
        assert spelling in body
    assert body.index(b'"name":"seek"') < body.index(b'"parameters"')


@pytest.mark.parametrize(
    "tools",
    [
        b'[{"type":"function","function":{"name":"b","name":"a"}},{"type":"function","function":{"name":"a"}}]',
        b'[{"name":"b"},"a"]',
        b'[{"name":"b","d":"\\ud800"},{"name":"a"}]',
    ],
)
def test_tools_that_cannot_be_written_again_go_out_as_they_are(tools: bytes) -> None:
    raw = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":' + tools + b"}"
    body = json.loads(raw)
    desk = Desk()
    from gateway.dialects.prompt_read import read
    from tests.canonical.desk import MIRA

    prompt = read("/v1/chat/completions", body)
    assert prompt is not None
    result = desk.canonicalizer.canonicalize(raw, prompt, MIRA, desk.ledger, desk.now)
    assert result.body is raw
    assert result.reason.startswith("doubt: ")


def test_response_formats_are_not_touched() -> None:
    path, body = chat("You are Pelle.", USER)
    fmt = {"type": "json_schema", "json_schema": {"schema": {"required": [], "type": "object"}, "name": "x"}}
    result = Desk().send((path, {**body, "response_format": fmt, "tools": [chat_tool("b", SCHEMA), chat_tool("a", SCHEMA)]}))
    assert json.dumps(orjson.loads(result.body)["response_format"]) == json.dumps(fmt)


def test_the_rule_can_be_off() -> None:
    tools = [chat_tool("b", SCHEMA), chat_tool("a", SCHEMA)]
    assert sent(Desk(Settings(rules=frozenset({"clock"}))), chat, tools) == tools
