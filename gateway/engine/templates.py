"""ChatML chat templates for the generated models. Where the tools stand decides what a changed system text costs. Pure.

`first` puts them in front of the system text, so that a change in that text leaves the tools cached; `last` puts them behind
it, so that one changed character in the system text makes the server read all tools again. Real models have either.
"""

from __future__ import annotations

from typing import Literal

ToolsPlace = Literal["first", "last"]

_SYSTEM: dict[ToolsPlace, str] = {
    "first": "{{- functions + ('\\n\\n' if functions and system else '') + system -}}",
    "last": "{{- system + ('\\n\\n' if functions and system else '') + functions -}}",
}

_TEMPLATE = """\
{%- set system = '' -%}
{%- set history = messages -%}
{%- if messages and messages[0].role in ['system', 'developer'] -%}
  {%- set system = messages[0].content -%}
  {%- set history = messages[1:] -%}
{%- endif -%}
{%- set functions = '' -%}
{%- if tools -%}
  {%- set listing = namespace(text='You can call these functions:') -%}
  {%- for tool in tools -%}{%- set listing.text = listing.text + '\\n' + (tool | tojson) -%}{%- endfor -%}
  {%- set functions = listing.text -%}
{%- endif -%}
{%- if system or functions -%}
  {{- '<|im_start|>system\\n' -}}
  SYSTEM
  {{- '<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in history -%}
  {{- '<|im_start|>' + message.role + '\\n' -}}
  {%- if message.content is string -%}{{- message.content -}}{%- endif -%}
  {%- for call in message.tool_calls or [] -%}
    {{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' -}}
    {%- if call.function.arguments is string -%}
      {{- call.function.arguments -}}
    {%- else -%}
      {{- call.function.arguments | tojson -}}
    {%- endif -%}
    {{- '}\\n</tool_call>' -}}
  {%- endfor -%}
  {{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""


def chat_template(tools: ToolsPlace = "first") -> str:
    """The Jinja text of the template."""
    return _TEMPLATE.replace("SYSTEM", _SYSTEM[tools])
