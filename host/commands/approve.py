"""`minifram approve`."""

from __future__ import annotations

import click

from host.commands.options import Verb, context_of, json_option, screen_of


@click.command("approve", cls=Verb)
@click.argument("id", default="")
@json_option
@click.pass_context
def verb(ctx: click.Context, id: str, as_json_: bool) -> None:
    """Let the agent make the call that it asked about, and show that call; without ID, show all that wait.

    It is for that very call, as often as it is made, until the unit of work that asked is done.

    \b
    Example:
      minifram approve 0123456789abcdef
    """
    from host.display import as_json, plain
    from host.repository import approvals
    from host.repository import open as bare

    context, screen = context_of(ctx), screen_of(ctx)
    home = context.initialised()
    git = bare.open_repository(home, bare.pm_of(context.environ))
    if not id:
        waiting = approvals.listed(git, home)
        if as_json_:
            screen.result(as_json("approve", {"waiting": plain(waiting)}))
            return
        for asking in waiting:
            screen.result("\n".join(approvals.shown(asking)))
        if not waiting:
            screen.result("nothing waits for your answer")
        return
    told, asking = approvals.answer(git, home, id, approved=True)
    if as_json_:
        screen.result(as_json("approve", {**plain(told), "call": plain(asking)}))
    else:
        screen.result("\n".join([f"approved  {told.commit[:12]} {told.text}", *approvals.shown(asking)]))
