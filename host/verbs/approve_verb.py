"""`minifram approve`."""

from __future__ import annotations

import click

from host.options import Verb, caller_of, json_option, screen_of


@click.command("approve", cls=Verb)
@click.argument("id")
@json_option
@click.pass_context
def verb(ctx: click.Context, id: str, as_json_: bool) -> None:
    """Let the agent make the call that it asked about: ID is in its report, and in 'minifram status'.

    It is for that very call, as often as it is made, until the unit of work that asked is done.

    \b
    Example:
      minifram approve ab12cd34
    """
    from host import approvals, bare
    from host.display import as_json, plain

    caller, screen = caller_of(ctx), screen_of(ctx)
    git = bare.open_repository(caller.initialised(), bare.pm_of(caller.environ))
    told = approvals.answer(git, id, approved=True)
    screen.result(as_json("approve", plain(told)) if as_json_ else f"approved  {told.commit[:12]} {told.text}")
