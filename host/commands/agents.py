"""Commands that make, start, end, move, copy and describe a whole agent."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from host.commands.options import (
    accept_option,
    command,
    context_of,
    rebuild_option,
    sandbox_option,
    timeout_option,
)
from host.context import Context, as_option
from host.display import Screen, counted
from infra.shared.providers import PROVIDERS

if TYPE_CHECKING:
    from host.agent.backup import BackedUp
    from host.agent.init import Initialised
    from host.agent.restore import Restored
    from host.agent.up import Restarted


@command
@click.option(
    "--sandbox",
    type=click.Choice(["auto", "podman", "process"]),
    help="Where the agent runs (default: auto, a sealed container where podman works).",
)
@click.option("--model", type=click.Choice(["auto", *PROVIDERS]), help="The model's provider (default: auto).")
@click.option(
    "--autonomy",
    type=click.Choice(["merge", "propose", "frozen"]),
    help="merge: the agent merges what the keep examined (default); propose: only you move main; frozen: reports only.",
)
def init(context: Context, screen: Screen, sandbox: str | None, model: str | None, autonomy: str | None) -> None:
    """Make a new agent: its bare repository with a first commit, its settings, its directories.

    \b
    Examples:
      minifram init
      minifram init --agent second --model anthropic --autonomy propose
    """
    from host.agent.init import init_agent
    from host.agent.settings_text import file_text
    from host.repository.open import pm_of

    defaults = {"sandbox": "auto", "autonomy": "merge", "model.provider": "auto"}
    given = {"sandbox": sandbox, "autonomy": autonomy, "model.provider": model}
    chosen = {key: value for key, value in given.items() if value}
    text = file_text(context.agent, defaults | chosen)
    pm = pm_of(context.environ)
    made = init_agent(context.home, context.root, text if chosen else None, text, pm, context.uid)
    screen.show(made, _initialised(made, screen))


def _initialised(made: Initialised, screen: Screen) -> Iterator[str]:
    kept = " (it was there, and is kept as it is)" if made.settings_kept else ""
    yield f"{screen.strong('agent')}       {made.agent}, first commit {made.commit[:12]} on main"
    yield f"repository  {made.remote}"
    yield f"settings    {made.settings}{kept}"
    yield f"its files   {made.bot}"
    yield f"state       {made.state}"
    yield f"sockets     {made.run}"
    yield ""
    yield "Next: 'minifram up'"
    yield "      'minifram tell \"what the agent should do\"'"
    yield f"      git clone {shlex.quote(made.remote)}   (edit COMMS.md, commit, push: the same by hand)"


@command
@sandbox_option
@rebuild_option
@timeout_option(90.0, "Seconds to wait for it.")
def up(context: Context, screen: Screen, sandbox: str | None, rebuild: bool, timeout: float) -> int:
    """Start an agent and wait until it works. Exits with 8 when only safe mode works.

    The watcher continues to run after this command exits. With $ANTHROPIC_API_KEY set the agent runs on Claude,
    else with $OPENAI_API_KEY on OpenAI's model, unless the settings name another 'model.provider'. Only the model
    door can read the keys; 'minifram down' removes them.

    The sandbox 'podman' is a sealed container; a missing image is built, which takes some minutes. 'auto' selects it
    when 'minifram doctor' finds podman usable. --timeout counts from the start.
    """
    from host.agent.up import make_ready, start_agent
    from host.running.start import exit_of, version_words

    ready = make_ready(context, sandbox, screen.progress)
    started = start_agent(context, ready, screen.progress, timeout, rebuild)
    code = exit_of(started.level)
    version = version_words(started.branch, started.commit, started.level)
    mark = screen.bad("running") if code else screen.good("running")
    screen.show(
        started,
        (
            f"{mark}  {started.agent}: {version}, {started.model} model, {started.sandbox} sandbox, "
            f"watcher pid {started.pid}, after {started.seconds:.1f} s",
            "Next: 'minifram tell \"…\"', 'minifram status', 'minifram down'",
        ),
    )
    return code


@command
@timeout_option(60.0, "Seconds to wait for it.")
def down(context: Context, screen: Screen, timeout: float) -> None:
    """Stop an agent: its runner first, then the doors and the watcher. Its work is kept."""
    from host.agent.up import stop_agent

    ended = stop_agent(context, screen.progress, timeout)
    screen.show(ended, f"down  {ended.agent} (watcher was pid {ended.pid})")


@command
@sandbox_option
@rebuild_option
@timeout_option(90.0, "Seconds for each half.")
def restart(context: Context, screen: Screen, sandbox: str | None, rebuild: bool, timeout: float) -> int:
    """Stop an agent if it runs, start it again, and print what changed. Exits with 8 when only safe mode works.

    Settings, repository and key are checked first: an agent that could not be restarted is not stopped.
    """
    from host.agent.up import restart_agent
    from host.running.start import exit_of

    done = restart_agent(context, sandbox, screen.progress, timeout, timeout, rebuild)
    screen.show(done, _restarted(done, screen))
    return exit_of(done.level)


def _restarted(done: Restarted, screen: Screen) -> Iterator[str]:
    from host.running.start import exit_of

    yield f"{screen.good('running')}  {done.agent}: watcher pid {done.pid}"
    if not done.pid_before:
        yield "it was down before"
    if done.before == done.after:
        yield f"version   {_short(done.after)}, as before"
    else:
        yield f"version   {_short(done.before) or 'none'} -> {_short(done.after)}"
    for key, (old, new) in done.settings_changed.items():
        yield f"setting   {key}: {old} -> {new}"
    if exit_of(done.level):
        yield f"active    {screen.bad(done.level)}: 'minifram status' says why"


def _short(version: str) -> str:
    branch, _, commit = version.rpartition("@")
    return f"{branch}@{commit[:12]}" if branch else ""


@command
@click.option("--back", is_flag=True, help="To the image before the last upgrade, which was tested then.")
@timeout_option(90.0, "Seconds to wait for each start.")
@accept_option("Take settings that changed and concern isolation, keys, money or network.")
def upgrade(context: Context, screen: Screen, back: bool, timeout: float, accept: bool) -> None:
    """Move an agent in its sealed container to the installed version of minifram, and back when it fails.

    \b
    1. The new image is built and tested: a scratch agent runs all of 'minifram demo' in it (about two
       minutes).
       An image that fails is not used, and the agent's container is not touched.
    2. The old container is stopped and set aside, and the watcher's state is copied.
    3. The new container is started on the same volumes, repository, settings and key.
    4. When the agent does not work in time, or does not continue to work for 5 s, the old container is back, with the
       state that its watcher had; COMMS.md and this command say why. Else the old container is removed; its image
       stays for --back.

    Settings that changed since the agent was started, may give it more, and concern isolation, keys, money or network
    are listed; without your answer or --accept nothing is done.

    After an interruption at any moment, 'upgrade' and 'up' finish the upgrade, and 'down' abandons it. 'up' and
    'restart' also switch to the installed version, without a test and without a way back; after --back they would do
    so again.
    """
    from host.agent import upgrade as upgrading
    from host.agent.consent import asking
    from host.agent.switch import Timeouts

    done = upgrading.upgrade(context, back, asking(accept, screen), screen.progress, Timeouts(up=timeout))
    if done.is_another:
        text = (
            f"{screen.good('running')}  {done.agent}: {done.branch}@{done.commit[:12]}, "
            f"image {done.before} -> {done.after}, watcher pid {done.pid}, after {done.seconds:.1f} s"
        )
    else:
        text = f"{done.agent} runs image {done.after} already; nothing was changed"
    screen.show(done, text)


@command
@click.argument("file", required=False, type=click.Path())
def backup(context: Context, screen: Screen, file: str | None) -> None:
    """Write an agent, running or not, to one file, from which 'minifram restore' restores it.

    FILE (default: minifram-AGENT-TIME.tar.gz, here) must not exist yet. It holds the repository with all branches
    and tags, and so the mind; of the mind also what is in no commit, events and scratch files, as far as they fit into
    1 GiB; your settings; the ledger of model calls. It never holds the model's key, sockets, other logs, or work in the
    agent's clones that was not pushed.

    \b
    Examples:
      minifram backup
      minifram backup /mnt/safe/agent.tar.gz --agent second
    """
    import time

    from host.agent.backup import back_up

    made = back_up(context, file, time.time(), screen.progress)
    screen.show(made, _backed_up(made, screen))
    screen.advise("it holds everything that the agent and you wrote: keep it where only you read")


def _backed_up(made: BackedUp, screen: Screen) -> Iterator[str]:
    yield f"{screen.strong('backup')}      {made.file} ({counted(made.bytes, 'byte')})"
    yield f"agent       {made.agent}, {counted(made.refs, 'ref')}, main at {made.commit[:12]}"
    for name, size in made.parts.items():
        yield f"  {name:<18}  {counted(size, 'byte')}"
    yield f"not in it   {', '.join(made.left_out)}"


@command
@click.argument("file", type=click.Path())
@accept_option("Take the archive's settings that concern isolation, keys, money or network.")
def restore(context: Context, screen: Screen, file: str, accept: bool) -> None:
    """Make an agent from FILE, which 'minifram backup' wrote: same history, COMMS.md, settings, money spent.

    It keeps its name, unless --agent or $MINIFRAM_AGENT gives another. An existing agent is never
    overwritten. The whole file is verified first; if it is invalid, nothing is created.

    An archive may be somebody else's, or changed since you wrote it. Its settings that differ from the
    defaults and may give the agent more, in what concerns isolation, keys, money or network, are listed, and none of
    them is taken without your answer or --accept. 'sandbox: process' never is, and the agent counts as one that
    lived sealed, unless the archive says otherwise and you agree: without podman, 'minifram up' starts it only
    with --sandbox process.

    \b
    Examples:
      minifram restore minifram-agent-20260131T104212Z.tar.gz
      minifram restore agent.tar.gz --agent second
    """
    from host.agent.consent import asking
    from host.agent.restore import restore_agent

    name = context.agent if _is_named(click.get_current_context()) else None
    made = restore_agent(context, file, name, asking(accept, screen), screen.progress)
    screen.show(made, _restored(made, screen))


def _restored(made: Restored, screen: Screen) -> Iterator[str]:
    from host.agent.consent import shown
    from infra.shared.providers import VARIABLES

    was = "" if made.was == made.agent else f" (it was {made.was!r})"
    yield f"{screen.strong('agent')}       {made.agent}{was}, as of {made.time}"
    yield f"repository  {made.remote}, {counted(made.refs, 'ref')}, main at {made.commit[:12]}"
    yield f"settings    {made.settings}"
    for title, settings in (("taken", made.taken), ("not taken", made.not_taken)):
        for each in settings:
            yield f"  {title:<9}  {shown(each)}"
    yield f"ledger      {counted(made.ledger_bytes, 'byte')}, in {made.state}"
    yield f"mind        its branch, and {counted(made.mind_files, 'file')} of events and scratch"
    yield f"not there   {', '.join(made.not_restored)}"
    yield ""
    yield f"Next: export its model's key, such as {VARIABLES[0]}=…   (unless it needs none)"
    yield f"      'minifram up{as_option(made.agent)}'"


def _is_named(ctx: click.Context) -> bool:
    """Whether the PM named the agent, before or after the command or in the environment."""
    if context_of(ctx).environ.get("MINIFRAM_AGENT"):
        return True
    contexts = [each for each in (ctx, ctx.parent) if each]
    return any(each.get_parameter_source("agent") is click.core.ParameterSource.COMMANDLINE for each in contexts)
