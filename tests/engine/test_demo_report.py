from io import StringIO
from pathlib import Path

from rich.console import Console

from gateway.cli._demo_report import COUNT, METRICS, Report, Turn, as_document, prefilled, select, show, total
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


WATER = Turn("first", Reply("Plenty of [b]water[/b] " + "and more " * 40, 1.25, 2.5, prompt=2000, cached=500))
BARREL = Turn("first", Reply("The barrel.", 0.25, 1.5, prompt=2010, cached=2000))
SILENT = Turn("second", Reply("Yes.", 0.5, 0.75, prompt=None, cached=None))


def report(*, direct: tuple[Turn, ...] = (WATER,), gateway: tuple[Turn, ...] = (BARREL,), speaks: bool = True) -> Report:
    return Report("m", Path("/models/m.gguf"), speaks, "http://gateway", "http://admin", direct, gateway, select(SCRAPE))


def shown(what: Report) -> str:
    output = StringIO()
    show(what, Console(width=100, file=output))
    return output.getvalue()


def test_select_keeps_whole_names_in_their_order() -> None:
    lines = select(SCRAPE)
    assert [line.partition("{")[0] for line in lines] == [METRICS[0], METRICS[0], METRICS[2], METRICS[3]]
    assert total(lines, COUNT) == 3.0


def test_a_request_has_a_row_for_each_way() -> None:
    directly, gateway = (line for line in shown(report()).splitlines() if " s │" in line)
    assert [cell.strip() for cell in directly.split("│")[1:-1]] == ["first", "directly", "1.250 s", "2,000", "500", "25.0%"]
    assert [cell.strip() for cell in gateway.split("│")[1:-1]] == ["", "gateway", "0.250 s", "2,010", "2,000", "99.5%"]


def test_the_totals_are_a_sentence() -> None:
    sentence = "Of the prompts the server had to read 1,500 tokens directly, 10 through the gateway; "
    assert sentence + "1.2 s of waiting directly, 0.2 s through the gateway." in shown(report())


def test_unknown_is_not_zero() -> None:
    text = shown(report(direct=(WATER, SILENT), gateway=(BARREL, SILENT)))
    assert text.count("not told") == 6
    assert "The server does not tell how much of the prompts it had to read; 1.8 s of waiting directly" in text
    assert prefilled([WATER.reply, SILENT.reply]) is None
    assert prefilled([WATER.reply, BARREL.reply]) == 1510


def test_answers_are_shown_as_they_are_and_only_when_they_mean_something() -> None:
    assert "first, directly: Plenty of [b]water[/b] and more" in shown(report())
    assert "first, through the gateway: The barrel." in shown(report())
    assert "Plenty of" not in shown(report(speaks=False))


def test_the_document_has_the_same_figures() -> None:
    document = as_document(report(direct=(WATER, SILENT), gateway=(BARREL, SILENT)))
    first, second = document["requests"]
    assert (first["name"], second["name"]) == ("first", "second")
    assert first["direct"]["ttft_seconds"] == 1.25
    assert first["gateway"]["reused"] == 0.995
    assert second["gateway"]["reused"] is None
    assert document["totals"]["gateway"] == {"ttft_seconds": 0.75, "prefilled_tokens": None}
    assert document["metrics"] == list(select(SCRAPE))
    assert document["weights"] == "m.gguf"
