"""`minifram generate`."""

from __future__ import annotations

import click

from host.commands.options import Verb, accept_option, context_of, json_option, screen_of
from infra.shared.exit_codes import Exit


@click.command("generate", cls=Verb)
@click.argument("kind", type=click.Choice(["quadlet", "kube"]))
@click.option("--install", is_flag=True, help="quadlet: write it where systemd finds it.")
@click.option(
    "--check",
    metavar="[FILE]",
    is_flag=False,
    flag_value="",
    help="Show how FILE (default: the installed unit) differs from what would be made now; 8 when it does.",
)
@accept_option("Take settings that changed and concern isolation, keys, money or network.")
@json_option
@click.pass_context
def verb(ctx: click.Context, kind: str, install: bool, check: str | None, accept: bool, as_json_: bool) -> int:
    """Print what runs the agent without this command: a quadlet unit for systemd, or a kube manifest.

    Both are made of the same words as the container of 'minifram up', which has to have been there: image and
    directories are the ones it made. They need podman 5. After a change of settings or version, make them anew.
    Settings that changed since 'minifram up', may give the agent more, and concern isolation, keys, money or network
    need your answer or --accept.

    \b
    quadlet  systemd starts the agent, at boot too. End it with 'systemctl --user stop minifram-NAME':
             'minifram down' takes the key away.
    kube     for 'podman kube play'; its first lines say how. The key is a Secret that you make.

    \b
    Examples:
      minifram generate quadlet --install
      minifram generate quadlet --check
      minifram generate kube > minifram-agent.yaml
      minifram generate kube --check minifram-agent.yaml
    """
    from host.agent import generated
    from host.agent.consent import asking
    from host.container import quadlet
    from host.display import as_json, counted
    from host.repository import open as bare
    from host.repository.guard import put_guard

    context, screen = context_of(ctx), screen_of(ctx)
    if install and check is not None:
        raise click.UsageError("--install writes, --check looks; take one of them")
    if kind == generated.KUBE and (install or check == ""):
        raise click.UsageError("a manifest is installed nowhere; redirect it to a FILE, and name that to --check")
    found = generated.now(context, kind, check is None, asking(accept, screen) if check is None else None)
    agent, text = found.home.agent, generated.text_of(kind, found)
    if check is not None:
        checked = generated.check(agent, check or generated.unit_path(context, agent), text)
        if as_json_:
            screen.result(as_json("generate", checked))
        for line in [] if as_json_ else checked.differences:
            screen.result(line)
        lines = sum(line.startswith(("+", "-")) for line in checked.differences[2:])
        differs = f"{counted(lines, 'line')} of {checked.file} differ from what would be made now"
        screen.progress(differs if lines else f"{checked.file} is what would be made now")
        return Exit.FINDINGS if lines else Exit.OK
    if found.machine.version < generated.needed(kind):
        have, need = (".".join(map(str, version)) for version in (found.machine.version, generated.needed(kind)))
        screen.progress(f"podman is {have} here; this needs {need} or newer")
    path = generated.unit_path(context, agent) if install else ""
    if install:
        bare.open_repository(found.home)
        put_guard(found.home.remote)  # systemd starts the container, and calls nobody who would
        generated.install(path, text)
    if as_json_:
        screen.result(as_json("generate", {"agent": agent, "kind": kind, "file": path, "text": text}))
    elif install:
        screen.result(f"{screen.good('written')}  {path}")
        screen.result(f"Next: systemctl --user daemon-reload && systemctl --user start {quadlet.name(agent)}")
        screen.result("For a start at boot, once: loginctl enable-linger")
    else:
        screen.result(text.removesuffix("\n"))
    return Exit.OK
