"""`minifram upgrade`."""

from __future__ import annotations

import click

from host.commands.options import Verb, accept_option, context_of, json_option, screen_of


@click.command("upgrade", cls=Verb)
@click.option("--back", is_flag=True, help="To the image before the last upgrade; it was proved when it came.")
@click.option(
    "--timeout", type=click.FloatRange(min=0), default=90.0, show_default=True, help="Seconds to wait for each start."
)
@accept_option("Take settings that changed and concern isolation, keys, money or network.")
@json_option
@click.pass_context
def verb(ctx: click.Context, back: bool, timeout: float, accept: bool, as_json_: bool) -> None:
    """Move an agent in its sealed container to the installed version of minifram, and back when it fails.

    \b
    1. The new image is built, and proved: a scratch agent lives the whole of 'minifram demo' in it (a minute).
       An image that fails is not taken, and the agent's container is not touched.
    2. The old container is stopped and set aside, and the watcher's memory is copied.
    3. The new container is started on the same volumes, repository, settings and key.
    4. When the agent does not work in time, and go on working for 5 s, the old container is back, with the memory
       that its watcher had; COMMS.md and this command say why. Else the old container goes; its image stays for --back.

    Settings that changed since the agent was started, may give it more, and concern isolation, keys, money or network
    are listed; without your answer or --accept nothing is done.

    Cut short at any moment, 'upgrade' and 'up' end what was begun, and 'down' gives it up. 'up' and 'restart' take the
    installed version too, without proof and without return; after --back they would take it again.
    """
    from host.agent import upgrade
    from host.agent.consent import asking
    from host.display import as_json

    context, screen = context_of(ctx), screen_of(ctx)
    limits = upgrade.Limits(up=timeout)
    done = (upgrade.go_back if back else upgrade.upgrade)(context, asking(accept, screen), screen.progress, limits)
    if as_json_:
        screen.result(as_json("upgrade", done))
    elif not done.is_another:
        screen.result(f"{done.agent} runs image {done.after} already; nothing was changed")
    else:
        screen.result(
            f"{screen.good('running')}  {done.agent}: {done.branch}@{done.commit[:12]}, "
            f"image {done.before} -> {done.after}, watcher pid {done.pid}, after {done.seconds:.1f} s"
        )
