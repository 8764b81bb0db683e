"""`up`, `down` and `restart`.

Everything that can be wrong, or take long, comes before anything is stopped or started. The models' keys pass from the
PM's environment into files in the runtime directory that only the model door reads, and are removed with the agent."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

from host import running
from host.cli import command, timeout_option
from host.errors import CommandError, conflict, failure, not_found, not_running, usage
from host.home import AgentPaths, Context, base_directory, secure_directory, secure_run_directory
from host.notify import start_beside
from host.repository import problem_with_repository
from host.running import DOWN_SECONDS, PODMAN, UP_SECONDS, Running
from host.screen import Say, Shown, bad, good
from host.settings import problem_with_model
from infra.keep.programs import keep_command, keep_environment
from infra.keep.settings.check import read_settings, variables
from infra.keep.settings.models import KEYS, keys_needed, model_words, provider_with, variable_of
from infra.keep.settings.schema import Settings
from infra.keep.watcher_file import Level, Phase
from infra.shared.exit_codes import Exit
from infra.shared.files import write_whole

if TYPE_CHECKING:
    from host.container.machine import Machine
    from host.container.podman import Podman


class Ready(NamedTuple):
    """What a start needs, all checked: `keys` by name; `podman`, `machine` and `image` for a container; `eye`, the
    image for its browser's, where it has one."""

    home: AgentPaths
    settings: Settings
    keys: Mapping[str, str]
    podman: Podman | None = None
    machine: Machine | None = None
    image: str = ""
    eye: str = ""


STAY_SECONDS = 0.5
rebuild_option = click.option("--rebuild", is_flag=True, help="podman: pull the base and make the image again.")


@command
@rebuild_option
@click.option("--foreground", is_flag=True, help="Stay until the agent ends, and end it on SIGTERM: for systemd.")
@click.option("--serve", "serves", is_flag=True, help="Start the page beside it: 'minifram serve --link'.")
@timeout_option(UP_SECONDS, "Seconds to wait for it.")
def up(
    context: Context, say: Say, rebuild: bool, foreground: bool, timeout: float, serves: bool = False
) -> Iterator[Shown]:
    """Start an agent and wait until it works. Exits with 8 when only safe mode works.

    The watcher continues to run after this command exits. With $ANTHROPIC_API_KEY set the agent runs on Claude,
    else with $OPENAI_API_KEY on OpenAI's model, unless the settings name another 'model.provider'. Only the model
    door can read the keys; 'minifram down' removes them.

    In the sandbox 'podman' a missing image is built, which takes some minutes. --timeout counts from the start.
    """
    home = context.initialised()
    if running.is_running(home):
        raise running.already_running(home)
    asked: list[int] = []
    if foreground:
        signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    ready = make_ready(context, rebuild, say)
    started = _start(context, ready, timeout, say)
    start_beside(context, ready.settings, say)
    if serves:
        _serve_beside(context)
    yield Shown(_value(ready, started), _lines(ready, started), code=_code(started))
    if foreground:
        yield _stay(context, home, asked, say)


def _serve_beside(context: Context) -> None:
    """The server as a process of its own, at the usual address; where one serves already, that one goes on."""
    log = f"{base_directory(context.environ, 'XDG_STATE_HOME', '.local/state')}/serve.log"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW  # it will hold the link
    with open(os.open(log, flags, 0o600), "a", encoding="utf-8") as said:
        subprocess.Popen(
            keep_command("host", "serve"),
            env={**context.environ, "PYTHONPATH": context.root},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )


def _stay(context: Context, home: AgentPaths, asked: list[int], say: Say) -> Shown:
    """Until the agent has ended: by our SIGTERM, by its PM, or by itself, which is a failure."""
    while running.is_running(home) and not asked:
        time.sleep(STAY_SECONDS)
    if asked:
        with contextlib.suppress(CommandError):  # whoever asks may have asked the watcher, too
            stop_agent(context, home, DOWN_SECONDS, say)
    state = running.known_state(home)
    if asked or (state is not None and state.phase is Phase.STOPPED):
        return Shown({"agent": home.agent}, f"down  {home.agent}")
    _remove_keys(home)
    return Shown({"agent": home.agent}, advice="the watcher died: see 'minifram logs'", code=Exit.NOT_RUNNING)


@command
@timeout_option(DOWN_SECONDS, "Seconds to wait for it.")
def down(context: Context, say: Say, timeout: float) -> Shown:
    """Stop an agent: its runner first, then the doors and the watcher. Its work is kept."""
    home = context.initialised()
    pid = stop_agent(context, home, timeout, say)
    return Shown({"agent": home.agent, "pid": pid}, f"down  {home.agent} (watcher was pid {pid})")


@command
@rebuild_option
@timeout_option(UP_SECONDS, "Seconds for each half.")
def restart(context: Context, say: Say, rebuild: bool, timeout: float) -> Shown:
    """Stop an agent if it runs, and start it again. Exits with 8 when only safe mode or the image before works.

    Settings, repository, key and image are checked first: an agent that could not be restarted is not stopped. This is
    how settings take effect, and how an agent in a container moves to the installed version of minifram: when the new
    image does not work in time, the one before is started again.
    """
    home = context.initialised()
    ready = make_ready(context, rebuild, say, goes_on=True)
    before, why = "", ""
    if running.is_running(home):
        before = _image_of(ready.podman, home)
        stop_agent(context, home, timeout, say)
    try:
        started = _start(context, ready, timeout, say)
    except CommandError as trouble:
        if before in ("", ready.image):
            raise
        why = str(trouble)
        with contextlib.suppress(CommandError):  # it may have ended by itself
            stop_agent(context, home, DOWN_SECONDS, say)
        say(f"{ready.image} does not serve ({why}); {before} is started again")
        started = _start(context, ready._replace(image=before), timeout, say)
    start_beside(context, ready.settings, say)
    value, code = _value(ready, started) | {"fell_back": why}, Exit.FINDINGS if why else _code(started)
    return Shown(value, _lines(ready, started), "the new image does not serve" if why else "", code=code)


def make_ready(context: Context, rebuild: bool, say: Say, goes_on: bool = False) -> Ready:
    """Check all that a start needs, and find or build the image; with `goes_on`, the keys of the agent that runs now
    will do. Raises CommandError and SettingsError."""
    home = context.initialised()
    if not os.path.lexists(home.settings):
        raise not_found(f"the settings are missing: expected {home.settings}; an empty file there means all defaults")
    settings = read_settings(home.settings)
    if problem := problem_with_repository(home):
        raise problem
    if problem_of_model := problem_with_model(home, settings.model, settings.sandbox):
        raise usage(problem_of_model)
    keys = _keys(context, home, settings, goes_on)
    if settings.sandbox == PODMAN:
        from host.container import container, image
        from host.container.machine import unlimited

        machine = usable_machine(context)
        container.check_tree(machine, home)
        if names := unlimited(machine):
            say(f"WARNING: {' and '.join(names)} of containers cannot be limited here; delegated cgroups v2 could")
        podman = container.podman_of(context, machine)
        base, eye_base, eye = settings.podman.base, settings.podman.eye_base, ""
        found = image.find_or_build(podman, context.environ, context.root, base, rebuild, say)
        if settings.web.browser == "on":
            eye = image.find_or_build(podman, context.environ, context.root, eye_base, rebuild, say, image.EYE)
        return Ready(home, settings, keys, podman, machine, found, eye)
    owner = os.lstat(home.places.bot).st_uid if os.path.lexists(home.places.bot) else context.uid
    if owner != context.uid:
        raise conflict(
            f"{home.places.bot} belongs to uid {owner}: the agent lived in the podman sandbox, and who wrote its code "
            f"must not get your rights. To give it to you all the same: podman unshare chown -R 0:0 {home.places.bot}"
        )
    return Ready(home, settings, keys)


def usable_machine(context: Context) -> Machine:
    """This machine, when podman can seal an agent here. Raises CommandError."""
    from host.container.machine import lacks, look

    machine = look(context.environ, context.uid)
    if missing := [*lacks(machine)]:
        raise not_found("\n  ".join(["the podman sandbox cannot be used here:", *missing]))
    return machine


def _keys(context: Context, home: AgentPaths, settings: Settings, goes_on: bool) -> dict[str, str]:
    given = {key: context.environ.get(variable_of(key), "") for key in KEYS}
    for key in [key for key in KEYS if not given[key]] if goes_on else []:
        with (
            contextlib.suppress(FileNotFoundError, UnicodeDecodeError),
            open(home.key_file(key), encoding="utf-8") as file,
        ):
            given[key] = file.read().strip()
    return {key: checked_key(key, given[key]) for key in keys_needed(settings.model, [k for k in KEYS if given[k]])}


def checked_key(name: str, key: str) -> str:
    """The key as it can stand in an HTTP header. Raises CommandError; its text never holds the key."""
    key, variable = key.strip(), variable_of(name)
    if not key:
        raise not_found(
            f"model.provider or model.then is {provider_with(name)}, and {variable} is not set: "
            "export your key in it and try again, or set 'provider: scripted'"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise usage(f"{variable} holds spaces, control characters or non-ASCII; expected the bare key")
    return key


def _start(context: Context, ready: Ready, seconds: float, say: Say) -> Running:
    """Start the watcher and wait until its agent works. Raises CommandError."""
    home = ready.home
    secure_directory(home.state, context.uid)
    secure_run_directory(home, context.uid)
    _remove_keys(home)  # of an earlier start with another provider
    if ready.keys:
        secure_directory(home.places.secrets, context.uid)
    for name, key in ready.keys.items():
        write_whole(home.key_file(name), key.encode(), mode=0o400)
    try:
        if words := running.browser_words(home, ready.settings):
            say(f"browser: {words}")
        if ready.podman and ready.machine:
            return _start_container(context, ready, ready.podman, ready.machine, seconds, say)
        say(
            "WARNING: process sandbox: agent and keep run as your own user and are NOT isolated from each other "
            "or from your files; use it for development and demonstration only"
        )
        environ = keep_environment(context.environ, context.root) | variables(context.environ)
        return running.start(home, context.watcher, environ, seconds, say)
    except BaseException:
        runs = running.is_running(home)
        with contextlib.suppress(CommandError):  # the name is another container's, say
            runs = runs or bool(_image_of(ready.podman, home))
        if not runs:
            _remove_keys(home)
        raise


def _start_container(
    context: Context, ready: Ready, podman: Podman, machine: Machine, seconds: float, say: Say
) -> Running:
    from host.container import container, eye
    from host.container.words import container_name, create_words

    home, settings = ready.home, ready.settings
    words = create_words(
        home, settings, machine, ready.image, context.root, [*ready.keys], context.network, context.environ
    )
    with container.alone(home):
        before = running.stamp(home)
        try:
            container.make_way(podman, home)
            if ready.eye:
                eye.start(podman, machine, home, settings, ready.eye, context.root)
            started = container.start(podman, machine, home, words)
        except BaseException:
            if not _image_of(podman, home):
                container.remove(podman, home)
            raise
    say(f"container {container_name(home.agent)} started; waiting for the seal and for the agent to boot")
    ended = running.wait_until_running(home, started, before, seconds, say)
    if isinstance(ended, Running):
        return ended
    container.remove(podman, home)
    raise failure(f"the container ended at once with {ended}; {running.last_words(home)}")


def _image_of(podman: Podman | None, home: AgentPaths) -> str:
    """What the agent's container runs; empty where none does."""
    from host.container import container

    found = container.look(podman, home) if podman else None
    return found.image if found and found.runs else ""


def stop_agent(context: Context, home: AgentPaths, seconds: float, say: Say) -> int:
    """End the agent, in whatever sandbox it is, and take its keys away; gives the pid it had. Raises CommandError, also
    when it was not running."""
    bot = home.places.bot
    is_cells = os.path.lexists(bot) and os.lstat(bot).st_uid != context.uid
    in_container = not running.holder(home.places.watcher_lock) and (is_cells or running.sandbox_of(home) == PODMAN)
    try:
        return _stop_container(context, home, seconds, say) if in_container else running.stop(home, seconds, say)
    finally:
        if not running.is_running(home):
            _remove_keys(home)


def _stop_container(context: Context, home: AgentPaths, seconds: float, say: Say) -> int:
    from host.container import container

    podman = container.podman_of(context)
    with container.alone(home):
        found = container.look(podman, home)
        if found and found.runs:
            container.stop(podman, home, found, seconds, say)
        container.remove(podman, home)
        if found is None:
            return running.stop(home, seconds, say)
    if not found.runs:
        raise not_running(
            f"agent {home.agent!r} is not running (what was left of its container is removed); 'minifram up' starts it"
        )
    return found.pid


def _remove_keys(home: AgentPaths) -> None:
    for name in KEYS:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(home.key_file(name))


def _value(ready: Ready, started: Running) -> dict[str, object]:
    model = model_words(ready.settings.model, tuple(ready.keys))
    return {"agent": ready.home.agent, "sandbox": ready.settings.sandbox, "model": model, **started._asdict()}


def _lines(ready: Ready, started: Running) -> Iterator[str]:
    mark = bad("running") if _code(started) else good("running")
    version = running.version_words(started.branch, started.commit, started.level)
    how = f"{model_words(ready.settings.model, tuple(ready.keys))} model, {ready.settings.sandbox} sandbox"
    yield f"{mark}  {ready.home.agent}: {version}, {how}, watcher pid {started.pid}, after {started.seconds:.1f} s"
    yield "Next: 'minifram tell \"…\"', 'minifram status', 'minifram down'"


def _code(started: Running) -> Exit:
    """An agent of which only safe mode is left works, and needs its PM."""
    return Exit.FINDINGS if started.level == Level.SAFE else Exit.OK
