"""`warmgate ps`: which models are resident and until when, and how the backends are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gateway.cli import _admin, _show
from gateway.errors import WarmgateError


@click.command("ps")
@_show.config_option
@click.option("--all", "everything", is_flag=True, help="Also the models that are not resident.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(path: Path | None, everything: bool, as_json: bool) -> None:
    """Show the models that are resident and until when, the backends and their slots."""
    try:
        status = _admin.get(_admin.load_or_defaults(path), "/status")
    except WarmgateError as error:
        _show.fail(error, as_json)
    backends = status["backends"]
    models = list(_models(backends, everything, status.get("residency", [])))
    if as_json:
        click.echo(_show.dump({"backends": [_without_models(backend) for backend in backends], "models": models}))
        return
    console = _show.console()
    console.print(backend_table(backends) if backends else Text("No backend is configured."), soft_wrap=True)
    if backends:
        console.print()
        console.print(model_table(models, time.time()), soft_wrap=True)


def backend_table(backends: list[dict[str, Any]]) -> Table:
    """The backends, one a row."""
    table = _show.table("backend", "kind", "state", ("running", "right"), ("waiting", "right"), ("slots", "right"), "version")
    for one in backends:
        numbers = [*(_show.count(one.get(key)) for key in ("in_flight", "waiting")), _slots(one)]
        table.add_row(
            _show.name(one["name"]), _show.name(one["kind"]), state(one), *numbers, _show.name(one.get("version"), 24)
        )
    return table


def _slots(backend: dict[str, Any]) -> str:
    """Their number, and what becomes of idle ones as far as that is known."""
    mode = (backend.get("slot_use") or {}).get("mode", "unknown")
    return _show.count(backend.get("slots")) + ("" if mode == "unknown" else f" {mode}")


def state(backend: dict[str, Any]) -> Text:
    """How a backend is, in a word or with what is wrong."""
    if backend.get("circuit_open"):
        return Text("failing, asked last", style="bold red")
    if backend.get("sleeping"):
        return Text("asleep", style="yellow")
    if backend.get("up"):
        return Text("up", style="green")
    if backend.get("loading"):
        return Text("loading", style="yellow")
    return Text(_show.plain(backend.get("problem") or "down", 80), style="bold red")


def model_table(models: list[dict[str, Any]], now: float) -> RenderableType:
    if not models:
        return Text("No model is resident, as far as the backends tell (--all shows the others).")
    table = _show.table("model", "backend", "resident", ("size", "right"), ("context", "right"), "until", "kept")
    for model in models:
        resident = {True: "yes", False: "no"}.get(model["resident"], "not told")
        until = _show.until(model, now) if model["resident"] else _show.UNKNOWN
        table.add_row(
            _show.name(model["name"]), _show.name(model["backend"]), resident,
            _show.size(model["bytes"]), _show.count(model["context"]), until, kept(model),
        )  # fmt: skip
    return table


def kept(model: dict[str, Any]) -> Text:
    """Whether the configuration keeps a model, or why it does not now."""
    if model.get("problem"):
        return Text(_show.plain(model["problem"], 60), style="bold red")
    if model.get("released") or model.get("suspended"):
        return Text("released" if model.get("released") else "unloaded by somebody, kept again once it is used", style="yellow")
    if model.get("waits_for"):
        return Text(f"waits for {_show.plain(model['waits_for'], 40)}, which is in use", style="yellow")
    return Text("yes", style="green") if model.get("keep") else Text("no")


def _models(backends: list[dict[str, Any]], everything: bool, residency: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The models that are resident, or ought to be."""
    known = {(row["backend"], row["model"].removesuffix(":latest")): row for row in residency}
    wanted = ("keep", "state", "suspended", "released", "waits_for", "problem")
    for backend in backends:
        for model in backend["models"]:
            row = known.get((backend["name"], model["name"].removesuffix(":latest")), {})
            if everything or model["resident"] or row.get("keep"):
                yield {"backend": backend["name"], **model, **{name: row.get(name) for name in wanted}}


def _without_models(backend: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in backend.items() if key != "models"}
