"""`generate`: what runs an agent, or sends its notifications, without this command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from host.commands.options import accept_option, command
from host.context import Context
from host.display import Screen, counted
from infra.shared.exit_codes import Exit

if TYPE_CHECKING:
    from host.agent.generate import Checked


@command
@click.argument("kind", type=click.Choice(["quadlet", "kube", "notify"]))
@click.option("--install", is_flag=True, help="quadlet, notify: write it where systemd finds it.")
@click.option(
    "--check",
    metavar="[FILE]",
    is_flag=False,
    flag_value="",
    help="Show how FILE (default: the installed unit) differs from what would be made now; 8 when it does.",
)
@accept_option("Take settings that changed and concern isolation, keys, money or network.")
def generate(context: Context, screen: Screen, kind: str, install: bool, check: str | None, accept: bool) -> int:
    """Print a quadlet unit for systemd, or a kube manifest, that runs the agent without this command.

    Both describe the container that 'minifram up' makes. Run that first: they use its image and directories. They
    need podman 5.0, kube 5.4. Generate them again after a change of settings or version.
    Settings that changed since 'minifram up', may give the agent more, and concern isolation, keys, money or network
    need your answer or --accept.

    \b
    quadlet  systemd starts the agent, at boot too. End it with 'systemctl --user stop minifram-NAME':
             'minifram down' takes the key away.
    kube     for 'podman kube play'; its first lines say how. The key is a Secret that you make.
    notify   a unit of systemd that sends notifications ('minifram config notify') of an agent that 'up' does not start.

    \b
    Examples:
      minifram generate quadlet --install
      minifram generate quadlet --check
      minifram generate kube > minifram-agent.yaml
      minifram generate kube --check minifram-agent.yaml
    """
    from host.agent import generate as generated
    from host.agent.consent import asking
    from host.container import quadlet

    if install and check is not None:
        raise click.UsageError("--install writes, --check looks; take one of them")
    if kind == generated.KUBE and (install or check == ""):
        raise click.UsageError("a manifest is installed nowhere; redirect it to a FILE, and name that to --check")
    if kind == generated.NOTIFY:
        return _notify(context, screen, install, check)
    found = generated.now(context, kind, check is None, asking(accept, screen) if check is None else None)
    agent, text = found.home.agent, generated.text_of(kind, found)
    path = generated.unit_path(context, agent)
    if check is not None:
        return _checked(generated.check(agent, check or path, text), screen)
    if found.machine.version < generated.needed(kind):
        have, need = (".".join(map(str, version)) for version in (found.machine.version, generated.needed(kind)))
        screen.progress(f"podman is {have} here; this needs {need} or newer")
    lines = [text.removesuffix("\n")]
    if install:
        generated.install(found.home, path, text)
        lines = [
            f"{screen.good('written')}  {path}",
            f"Next: systemctl --user daemon-reload && systemctl --user start {quadlet.name(agent)}",
            "For a start at boot, once: loginctl enable-linger",
        ]
    screen.show(
        {"agent": agent, "kind": kind, "file": path if install else "", "text": text}, lines, verbatim=not install
    )
    return Exit.OK


def _notify(context: Context, screen: Screen, install: bool, check: str | None) -> int:
    from host.agent import generate as generated
    from host.notify import unit

    home = context.initialised()
    text, path = unit.unit(home.agent, context.environ), generated.notify_path(context, home.agent)
    if check is not None:
        return _checked(generated.check(home.agent, check or path, text), screen)
    lines = [text.removesuffix("\n")]
    if install:
        generated.install(home, path, text, unit.MARK)
        start = f"systemctl --user enable --now {unit.name(home.agent)}"
        lines = [f"{screen.good('written')}  {path}", f"Next: systemctl --user daemon-reload && {start}"]
    shown = {"agent": home.agent, "kind": generated.NOTIFY, "file": path if install else "", "text": text}
    screen.show(shown, lines, verbatim=not install)
    return Exit.OK


def _checked(found: Checked, screen: Screen) -> int:
    screen.show(found, found.differences, verbatim=True)
    lines = sum(line.startswith(("+", "-")) for line in found.differences[2:])
    differs = f"{counted(lines, 'line')} of {found.file} differ from what would be made now"
    screen.progress(differs if lines else f"{found.file} is what would be made now")
    return Exit.FINDINGS if lines else Exit.OK
