"""`minifram egress`."""

from __future__ import annotations

import click

from host.commands.options import Verb, context_of, json_option, screen_of
from infra.shared.exit_codes import Exit


@click.command("egress", cls=Verb)
@click.option("-n", "--number", type=click.IntRange(min=1), default=20, show_default=True, help="How many names.")
@json_option
@click.pass_context
def verb(ctx: click.Context, number: int, as_json_: bool) -> None:
    """What the agent in its container asked of the network: names, and what the rules stopped.

    A name that carries much in many questions may be a tunnel. Rules are explained in nftables/egress.nft.
    """
    from host.agent.egress import egress
    from host.container import choice
    from host.display import as_json, counted, one_line
    from host.errors import CommandError
    from host.running import record
    from host.running import watcher as watching

    context, screen = context_of(ctx), screen_of(ctx)
    home = context.initialised()
    if record.sandbox_in_use(home) != record.PODMAN:
        raise CommandError(
            Exit.CONFLICT, f"agent {home.agent!r} was not started in a container, and nothing else counts what it sends"
        )
    runs = watching.holder(home.places.watcher_lock, True) is not None
    found = egress(home, choice.podman_at_hand(context) if runs else None, number)
    if as_json_:
        screen.result(as_json("egress", found))
        return
    screen.result(
        f"{screen.strong('names')}: {counted(found.total.questions, 'question')}, {found.total.sent} went out, "
        f"with {found.total.bytes} bytes in front of the registered names"
    )
    if found.names:
        screen.result(screen.faint(f"  {'name':<40} {'asked':>7} {'sent':>7} {'bytes':>9}"))
    for name, asked in found.names.items():
        screen.result(f"  {one_line(name, 60):<40} {asked.questions:>7} {asked.sent:>7} {asked.bytes:>9}")
    if found.rejected is None:
        screen.result(f"{screen.strong('rejected')}: not known: {one_line(found.why_unknown, 200)}")
        return
    packets = sum(count.packets for count in found.rejected.values())
    screen.result(f"{screen.strong('rejected')}: {counted(packets, 'packet')} since the container was started")
    if found.rejected:
        screen.result(screen.faint(f"  {'rule':<40} {'packets':>7} {'bytes':>17}"))
    for rule, count in found.rejected.items():
        screen.result(f"  {one_line(rule, 60):<40} {count.packets:>7} {count.bytes:>17}")
