"""What can be read from the text of a chat template."""

from __future__ import annotations

import pytest

from gateway.doctor import templates

CALLS = {
    "{{ strftime_now('%d %b %Y') }}": (["strftime_now('%d %b %Y')"], False),
    '{%- set d = strftime_now( "%-d %B" ) %}': (['strftime_now( "%-d %B" )'], False),
    "{{ strftime_now('%Y-%m-%d %H:%M') }}": (["strftime_now('%Y-%m-%d %H:%M')"], True),
    "{{ strftime_now('%s') }}": (["strftime_now('%s')"], True),
    "{{ strftime_now(fmt) }}": (["strftime_now"], False),
    "Today is {{ currentDate }}, yesterday was {{ yesterdayDate }}.": (["currentDate", "yesterdayDate"], False),
    "{{ messages[0].content }} date_string currentDates": ([], False),
}
"""Template -> the calls that write a date, whether one changes within a day."""


@pytest.mark.parametrize("template", CALLS)
def test_dates(template: str) -> None:
    calls = templates.dates(template)
    assert (calls, any(map(templates.of_the_day, calls))) == CALLS[template]


GO = {
    "{{ .System }}{{ range .Tools }}{{ . }}{{ end }}": "behind",
    "{{- range .Tools }}{{ . }}{{ end }}{{- .System -}}": "before",
    "{{- if or .System .Tools }}{{- range .Tools }}{{ . }}{{ end }}{{ .System }}{{ end }}": "before",
    "{{- if or .System .Tools }}{{ .System }}{{ .Tools }}{{ end }}": "behind",
    "{{ .System }}{{ .Prompt }}": None,
    "{{ range $index, $tool := .Tools }}{{ end }}": None,
}


@pytest.mark.parametrize("template", GO)
def test_where_tools_stand_in_a_go_template(template: str) -> None:
    assert templates.tools_place_in_go(template) == GO[template]


def test_where_tools_stand_in_a_rendered_prompt() -> None:
    system, tool = templates.SYSTEM, templates.TOOL
    assert templates.tools_place(f"<s>{tool}</s>{system}") == "before"
    assert templates.tools_place(f"<s>{system}</s>{tool}") == "behind"
    assert templates.tools_place(system) is None, "a template that leaves tools out says nothing about their place"
