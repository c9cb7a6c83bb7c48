from io import StringIO
from pathlib import Path

from rich.console import Console

from gateway.cli._demo_report import COUNT, METRICS, Report, Turn, as_document, select, show, total
from gateway.engine.play import Reply

SCRAPE = """\
# TYPE warmgate_prompt_tokens_total counter
warmgate_prompt_tokens_total{model="m"} 30.0
warmgate_prompt_tokens_cached_total{model="m"} 20.0
warmgate_time_to_first_token_seconds_bucket{cache="hit",le="1"} 2.0
warmgate_time_to_first_token_seconds_count{cache="hit"} 2.0
warmgate_time_to_first_token_seconds_count{cache="miss"} 1.0
warmgate_requests_total{model="m"} 3.0
"""


def report(*, speaks: bool = True) -> Report:
    told = Turn("first", Reply("Plenty of [b]water[/b] " + "and more " * 40, 1.25, 2.5, prompt=2000, cached=500))
    silent = Turn("second", Reply("Yes.", 0.5, 0.75, prompt=None, cached=None))
    return Report("m", Path("/models/m.gguf"), speaks, "http://gateway", "http://admin", (told, silent), select(SCRAPE))


def shown(what: Report) -> str:
    console = Console(width=100, file=StringIO())
    show(what, console)
    return console.file.getvalue()


def test_select_keeps_whole_names_in_their_order() -> None:
    lines = select(SCRAPE)
    assert [line.partition("{")[0] for line in lines] == [METRICS[0], METRICS[0], METRICS[2], METRICS[3]]
    assert total(lines, COUNT) == 3.0


def test_the_table_tells_unknown_from_zero() -> None:
    text = shown(report())
    assert "1.250 s" in text
    assert "2,000" in text
    assert "25.0%" in text
    assert text.count("not told") == 3


def test_answers_are_shown_as_they_are_and_only_when_they_mean_something() -> None:
    assert "first: Plenty of [b]water[/b] and more" in shown(report())
    assert "Plenty of" not in shown(report(speaks=False))


def test_the_document_has_the_same_figures() -> None:
    document = as_document(report())
    assert document["requests"][0]["ttft_seconds"] == 1.25
    assert document["requests"][0]["reused"] == 0.25
    assert document["requests"][1]["reused"] is None
    assert document["metrics"] == list(select(SCRAPE))
    assert document["weights"] == "m.gguf"
