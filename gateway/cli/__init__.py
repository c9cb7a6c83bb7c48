"""`warmgate`: one file per verb. Exit codes: 0 fine, 1 problem, 2 usage."""

from __future__ import annotations

from importlib import import_module

import click

from gateway import __version__

VERBS = {
    "run": "Run the gateway.",
    "init": "Write a configuration file from the servers that are found on this machine.",
    "check": "Check a configuration file.",
    "config": "Print the effective configuration.",
    "reload": "Have the running gateway read its configuration again.",
    "explain": "Explain why a request computed what it could have reused.",
    "ps": "Show the models that are resident and until when, the backends and their slots.",
    "top": "Show live what is reused, how long the first word takes, and what breaks prefixes most.",
    "tail": "Show each request as it ends: what it reused, and why not more.",
    "warm": "Have a prefix read now, or show which are kept warm.",
    "release": "Unload a model now, and keep nothing of it warm until it is used again.",
    "canon": "Show what would change in the prompts of saved requests.",
    "doctor": "Find out what keeps prompts from being reused, on the servers and in the gateway.",
    "forget": "Drop everything that was learned of prompts.",
    "demo": "Show what a warm prefix is worth, on a real llama.cpp server.",
}
"""Verb -> one line of help. Its module is imported when it is used, so that each verb starts quickly."""


class Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"gateway.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="warmgate")
def main() -> None:
    """A reverse proxy that keeps the prompt prefixes of local model servers stable and warm."""
