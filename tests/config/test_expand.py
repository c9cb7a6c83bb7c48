from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.expand import escape, expand

ENV = {"A": "one", "EMPTY": "", "ODD": 'x: "y" # z\n- ${A}', "BROKEN": "\udcff"}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("plain $ {A} $A }", "plain $ {A} $A }"),
        ("${A}", "one"),
        ("<${A}${A}>", "<oneone>"),
        ("${EMPTY}", ""),
        ("${EMPTY:-two}", "two"),
        ("${A:-two}", "one"),
        ("${NONE:-two: 'x' -}", "two: 'x' -"),
        ("${NONE:-}", ""),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("$${", "${"),
        ("${ODD}", 'x: "y" # z\n- ${A}'),
    ],
)
def test_references_are_replaced(text: str, expanded: str) -> None:
    assert expand(text, ENV) == expanded


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${NONE}", "the variable NONE is not set"),
        ("${BROKEN}", "the variable BROKEN is not UTF-8"),
        ("${", "not nested"),
        ("${A", "not nested"),
        ("${}", "not nested"),
        ("${1A}", "not nested"),
        ("${A-b}", "not nested"),
        ("${ A }", "not nested"),
        ("${NONE:-${A}}", "not nested"),
    ],
)
def test_other_references_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        expand(text, ENV)


@given(st.text(alphabet="$${}A:-x"))
def test_escaped_text_reads_back(text: str) -> None:
    assert expand(escape(text), ENV) == text
