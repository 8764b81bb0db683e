"""`minifram demo`."""

from __future__ import annotations

import importlib

import click

from host.commands.options import Verb, screen_of


@click.command("demo", cls=Verb)
@click.option("--sandbox", type=click.Choice(["process", "podman"]), default="process", help="Default: process.")
@click.option("--keep-at", metavar="DIR", help="Leave everything there to look at afterwards.")
@click.pass_context
def verb(ctx: click.Context, sandbox: str, keep_at: str | None) -> int:
    """Watch an agent live, improve itself, fail and recover: real programs, a scripted model, no key, no network."""
    run_demo = importlib.import_module("host.agent.demo").run_demo
    return int(run_demo(keep_at, sandbox, screen_of(ctx).out))
