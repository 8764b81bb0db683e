"""`minifram retry`."""

from __future__ import annotations

import click

from host.commands.options import Verb, context_of, json_option, screen_of
from infra.shared.exit_codes import Exit


@click.command("retry", cls=Verb)
@json_option
@click.pass_context
def verb(ctx: click.Context, as_json_: bool) -> int:
    """Say that versions which failed, and were pinned for it, may be tried again. Waits until the watcher knows.

    A version that cannot live is pinned: something older leads, until main holds another version or you say this. Use
    it when the fault was not the version's. A version that you rolled back from or rejected does not stand in for main
    until you say this, either. With neither nothing is changed. 'minifram status' shows the pins.

    The same by hand, from a clone: git push origin main:refs/minifram/retry
    """
    from host.agent import pins
    from host.context import as_option
    from host.display import as_json
    from host.repository import open as bare

    context, screen = context_of(ctx), screen_of(ctx)
    home = context.initialised()
    git = bare.open_repository(home, bare.pm_of(context.environ))
    done = pins.retry(home, git, pins.TAKEN_SECONDS)
    option = as_option(done.agent)
    if as_json_:
        screen.result(as_json("retry", done))
    elif not done.asked:
        screen.result("nothing is pinned, nothing was changed")
    else:
        for pin in pins.shown(done.pins):
            screen.result(f"pinned  {pin}")
        for commit in done.taken_back:
            screen.result(f"back    main@{commit[:12]}, which you took back, may stand in for main again")
        if done.taken:
            screen.result(f"{screen.good('taken')}   none of these is held back any more")
        else:
            screen.result("asked   they may be tried again")
    if done.taken and done.rung in pins.STAND_INS:
        screen.progress(f"{done.rung} makes way, main is tried now: 'minifram status{option}' says what came of it")
    elif done.asked and not done.running:
        screen.progress(f"the agent is not running; this is taken at the next start: 'minifram up{option}'")
    elif done.asked and not done.taken:
        screen.progress(
            f"the watcher has not taken it within {pins.TAKEN_SECONDS:g} s; it stays asked for: "
            f"'minifram status{option}' says when no more is pinned, 'minifram logs{option}' what the watcher does"
        )
        return Exit.TRY_AGAIN
    return Exit.OK
