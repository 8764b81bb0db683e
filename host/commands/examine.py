"""`minifram examine`."""

from __future__ import annotations

import click

from host.commands.options import Verb, complete_branch, context_of, json_option, screen_of
from infra.shared.exit_codes import Exit


@click.command("examine", cls=Verb)
@click.argument("branch", shell_complete=complete_branch)
@json_option
@click.pass_context
def verb(ctx: click.Context, branch: str, as_json_: bool) -> int:
    """Have the keep examine a branch: the version that merging it would make of main. Waits for the verdict.

    A running agent's keep does it, which holds the agent meanwhile. Asked again, it examines again.
    """
    from host.context import as_option
    from host.display import as_json, one_line
    from host.repository import examine as examining
    from host.repository import open as bare
    from host.repository import review

    context, screen = context_of(ctx), screen_of(ctx)
    home = context.initialised()
    git = bare.open_repository(home, bare.pm_of(context.environ))
    option = as_option(context.agent)
    done = examining.examine(home, git, branch, examining.LONGEST_SECONDS)
    if as_json_:
        screen.result(as_json("examine", done))
    elif done.standing:
        words = f": {one_line(done.verdict.words, 500)}" if done.verdict else ""
        told = screen.good(done.standing) if done.standing == review.PASSED else screen.bad(done.standing)
        screen.result(f"{branch}@{done.commit[:12]}  {told}{words}")
        screen.progress(f"'minifram review{option} {branch}' shows all of it")
    elif not done.running:
        screen.result(f"asked   {branch}@{done.commit[:12]}")
        screen.progress(f"the agent is not running; it is examined at the next start: 'minifram up{option}'")
    else:
        screen.result(f"asked   {branch}@{done.commit[:12]}")
        screen.progress(f"no verdict yet; it stays asked for: 'minifram review{option} {branch}' shows it")
        return Exit.TRY_AGAIN
    return Exit.OK
