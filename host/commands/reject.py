"""`minifram reject`."""

from __future__ import annotations

import click

from host.commands.options import Verb, complete_branch, context_of, json_option, screen_of


@click.command("reject", cls=Verb)
@click.argument("branch", shell_complete=complete_branch)
@click.option("--because", default="", metavar="TEXT", help="Why; the agent reads it.")
@json_option
@click.pass_context
def verb(ctx: click.Context, branch: str, because: str, as_json_: bool) -> None:
    """Take a branch away, keep its commit, and tell the agent by a directive. Prints the undo."""
    from host.display import as_json
    from host.repository import merge as decisions
    from host.repository import open as bare

    context, screen = context_of(ctx), screen_of(ctx)
    git = bare.open_repository(context.initialised(), bare.pm_of(context.environ))
    done = decisions.reject(git, branch, because)
    if as_json_:
        screen.result(as_json("reject", done))
        return
    screen.result(f"rejected  {branch}@{done.branch_commit[:12]}, kept as {done.kept_as}")
    screen.result(f"told      the agent, in {done.directive_commit[:12]}")
    screen.result(f"undo:     {done.undo}")
