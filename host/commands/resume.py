"""`minifram resume`."""

from __future__ import annotations

import click

from host.commands.options import Verb, context_of, json_option, screen_of
from infra.shared.exit_codes import Exit


@click.command("resume", cls=Verb)
@click.argument("run")
@click.argument("text", default="")
@click.option("--from", "step", type=click.IntRange(min=1), help="The step to go on from; the last one if not given.")
@click.option("--model", help="The model that is asked first, of those in your settings.")
@json_option
@click.pass_context
def verb(ctx: click.Context, run: str, text: str, step: int | None, model: str | None, as_json_: bool) -> int:
    """Have the agent take up a run again from behind one of its steps, as a new run: the same conversation up to there,
    and then another way. TEXT says what to do differently.

    It is a directive like any other, so you can write it by hand: 'Go on from run RUN after step 7.' What the run did
    after that step stays done; the model is told to look.

    \b
    Examples:
      minifram resume 2026-01-31T10 --from 7 "leave the parser as it is"
      minifram resume 2026-01-31T10 --model claude-opus-5-5
    """
    from host.agent.replaying import take_up
    from host.display import as_json, plain
    from host.repository import comms as talk
    from host.repository import open as bare

    context, screen = context_of(ctx), screen_of(ctx)
    home = context.initialised()
    words = take_up(home, run, step, model, text)
    told = talk.tell(bare.open_repository(home, bare.pm_of(context.environ)), words)
    screen.result(as_json("resume", plain(told)) if as_json_ else f"told  {told.commit[:12]} directive {told.id}")
    return Exit.OK
