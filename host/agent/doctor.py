"""Checks on this machine and on one agent, for `minifram doctor`. Starts nothing, and repairs only what a power cut
damaged and needs no guess.

Each check gives results: `ok`, `note` (good to know, nothing to do), `warn` and `fail`; the last two are findings."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from host.agent import pins
from host.agent.doors_check import check_doors
from host.agent.egress import check_egress
from host.agent.mind_health import check_mind
from host.agent.model_check import check_model
from host.context import Context
from host.display import counted
from host.errors import CommandError
from host.notify.check import check as check_notifications
from host.paths import AgentPaths, problem_with_directory
from host.repository.checks import FAIL, NOTE, OK, WARN, Result, check_repository
from host.repository.open import hooks_elsewhere
from host.repository.repair import machine_started, repair
from host.running.record import PODMAN, PROCESS, is_running, sandbox_in_use
from host.running.watcher import UNKNOWN, another_code, holder, known_state, orphan
from infra.shared import watcher_file
from infra.shared.providers import KEYS
from infra.shared.repository.git import Git, GitError
from infra.shared.settings_file import SettingsError, read_settings
from infra.shared.sockets import MAX_PATH_BYTES

if TYPE_CHECKING:
    from host.container.machine import Machine

PYTHON_NEEDED = (3, 11)
GIT_NEEDED = (2, 38)
DISK_WARN_BYTES = 1 << 30
DISK_FAIL_BYTES = 100 << 20
IMAGES_KEPT = 3
"""More than so many built images are worth a word."""


class Diagnosis(NamedTuple):
    agent: str
    initialised: bool
    results: tuple[Result, ...]

    @property
    def findings(self) -> int:
        return sum(result.level in (WARN, FAIL) for result in self.results)


def diagnose(context: Context) -> Diagnosis:
    """All checks; those of the agent only when there is one."""
    home = context.home
    checks: list[Callable[[Context, AgentPaths], Iterator[Result]]]
    checks = [_python, _git, _packages, _disk, _sockets, _podman]
    initialised = os.path.lexists(home.remote)
    if initialised:
        checks += [
            _settings,
            _repository,
            _run_directory,
            _state_directory,
            _container,
            _unit,
            check_egress,
            check_model,
            _key,
        ]
        checks += [_watcher, pins.check_main, check_doors, check_notifications, check_mind]
    results = [result for check in checks for result in check(context, home)]
    if not initialised:
        makes = f"'minifram init' makes it at {home.data}"
        results.append(Result("agent", NOTE, f"agent {home.agent!r} is not initialised: {makes}"))
    return Diagnosis(home.agent, initialised, tuple(results))


def _python(context: Context, home: AgentPaths) -> Iterator[Result]:
    version = sys.version_info
    level = OK if version[:2] >= PYTHON_NEEDED else FAIL
    yield Result("python", level, f"{version.major}.{version.minor}.{version.micro} (needed: 3.11 or newer)")


def _git(context: Context, home: AgentPaths) -> Iterator[Result]:
    try:
        words = Git("/")("version")
    except (OSError, GitError) as error:
        yield Result("git", FAIL, f"git cannot be run ({error}); install git 2.38 or newer")
        return
    match = re.search(r"(\d+)\.(\d+)", words)
    good = match is not None and (int(match[1]), int(match[2])) >= GIT_NEEDED
    yield Result("git", OK if good else FAIL, f"{words} (needed: 2.38 or newer, for merges without a work tree)")


def _packages(context: Context, home: AgentPaths) -> Iterator[Result]:
    from importlib.metadata import PackageNotFoundError, version

    lock = f"{context.root}/requirements.lock"
    try:
        with open(lock, encoding="utf-8") as file:
            locked = dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)\s*\\?$", file.read(), flags=re.MULTILINE))
    except OSError as error:
        yield Result("packages", FAIL, f"{lock} cannot be read ({error}); run minifram from a whole checkout")
        return
    wrong = []
    for name, wanted in locked.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            found = "none"
        if found != wanted:
            wrong.append(f"{name} {found}, locked {wanted}")
    if wrong:
        yield Result("packages", FAIL, f"not as locked: {'; '.join(wrong)}. Run 'make setup' in {context.root}")
    else:
        yield Result("packages", OK, f"{len(locked)} packages are installed as {lock} says")


def _disk(context: Context, home: AgentPaths) -> Iterator[Result]:
    for name, path in (("data", home.data), ("state", home.state), ("run", home.run)):
        while not os.path.isdir(path):
            path = os.path.dirname(path)
        free = shutil.disk_usage(path).free
        level = FAIL if free < DISK_FAIL_BYTES else WARN if free < DISK_WARN_BYTES and name != "run" else OK
        yield Result("disk", level, f"{free / (1 << 30):.1f} GiB free for {name} ({path})")


def _sockets(context: Context, home: AgentPaths) -> Iterator[Result]:
    longest = max((home.places.model_socket, home.places.git_socket), key=len)
    size = len(os.fsencode(longest))
    if size > MAX_PATH_BYTES:
        text = f"{longest} has {size} bytes, at most {MAX_PATH_BYTES} work: set XDG_RUNTIME_DIR to a shorter directory"
        yield Result("sockets", FAIL, text)
    else:
        yield Result("sockets", OK, f"paths of at most {size} bytes (limit {MAX_PATH_BYTES})")


def _podman(context: Context, home: AgentPaths) -> Iterator[Result]:
    """What the container needs of this machine. A finding for a user who wants one; root is no such user."""
    from host.container import machine

    found = machine.look(context.environ, context.uid)
    try:
        wanted = read_settings(home.settings).sandbox
    except SettingsError:  # reported by its own check
        wanted = "auto"
    level = FAIL if wanted == PODMAN else NOTE if wanted == PROCESS or context.uid == 0 else WARN
    for lack in machine.lacks(found):
        yield Result("podman", level if lack.is_fatal else NOTE, lack.text)
    if not machine.fatal(found):
        version = ".".join(map(str, found.version))
        text = f"{version} with {found.runtime}, {found.driver} storage, {found.network}, {found.ids} ids: usable"
        yield Result("podman", OK, text)
        yield from _image(context, found, wanted)


def _image(context: Context, found: Machine, wanted: str) -> Iterator[Result]:
    from host.container import choice, image
    from host.container.podman import PodmanError
    from host.container.words import VERSION

    podman = choice.podman_of(context, found)
    try:
        built = podman("image", "ls", f"--filter=label={VERSION}", "--quiet").split()
        is_there = image.look(podman, image.base_name(context.root)) is not None
    except PodmanError as error:
        yield Result("image", FAIL, error.said)
        return
    if is_there:
        yield Result("image", OK, f"its base is here; {counted(len(set(built)), 'image')} built")
    elif found.registries or found.mmdebstrap:
        yield Result("image", OK, "'minifram up' makes its base and builds it, which takes some minutes")
    else:
        text = "there is nothing to build it on: apt-get install mmdebstrap, or name an image in podman.base"
        yield Result("image", WARN if wanted == PODMAN else NOTE, text)
    if len(set(built)) > IMAGES_KEPT:
        text = f"podman image prune --all --filter label={VERSION}"
        yield Result("image", NOTE, f"those of earlier versions take room; this removes what is not in use: {text}")


def _container(context: Context, home: AgentPaths) -> Iterator[Result]:
    """For an agent that podman runs, or ran last: nothing may be left when it is down."""
    if sandbox_in_use(home) != PODMAN:
        return
    from host.container import choice, control

    try:
        podman = choice.podman_at_hand(context)
        found = control.look(podman, home)
        has_secret = bool(control.keys_held(podman, home))
    except CommandError as error:
        yield Result("container", FAIL, str(error))
        return
    if os.path.lexists(home.switch_file):
        text = "an upgrade is under way, or was cut short: 'minifram upgrade' or 'up' ends one that was"
        yield Result("container", WARN, text)
    runs = bool(found and found.runs)
    if found and runs and is_running(home):
        yield Result("container", OK, f"running (pid {found.pid}), image version {found.version}")
    elif found and runs:
        yield Result("container", WARN, f"running (pid {found.pid}), but no watcher is at work in it (yet)")
    elif found:
        text = f"left over ({found.status}, it ended with {found.exit_code}); 'minifram up' or 'down' removes it"
        yield Result("container", WARN, text)
    else:
        yield Result("container", OK, "none; the agent is down")
    if has_secret and not runs:
        yield Result("container", WARN, "podman holds the key though the agent is down; 'minifram down' removes it")


def _unit(context: Context, home: AgentPaths) -> Iterator[Result]:
    from host.agent import generate

    yield from generate.of_unit(context, home)


def _settings(context: Context, home: AgentPaths) -> Iterator[Result]:
    try:
        read_settings(home.settings)
    except SettingsError as error:
        yield from (Result("settings", FAIL, problem) for problem in str(error).splitlines())
    else:
        yield Result("settings", OK, home.settings)


def _repository(context: Context, home: AgentPaths) -> Iterator[Result]:
    try:
        for done in repair(home, machine_started()):
            yield Result("repository", NOTE, done)
        yield from check_repository(home, context.uid)
        if elsewhere := hooks_elsewhere(context.environ):
            text = (
                f"core.hooksPath in your own git configuration is {elsewhere!r}, so your pushes by path run no hook of "
                f"{home.remote}: set it in the repositories that need it, and not for all"
            )
            yield Result("hooks", WARN, text)
    except (GitError, OSError) as error:
        yield Result("repository", FAIL, str(error))


def _run_directory(context: Context, home: AgentPaths) -> Iterator[Result]:
    if not os.path.lexists(home.run):
        yield Result("run directory", OK, f"{home.run} is not there; 'minifram up' makes it")
        return
    problems = [problem_with_directory(path, context.uid) for path in (os.path.dirname(home.run), home.run)]
    yield from (Result("run directory", FAIL, problem) for problem in problems if problem)
    if not any(problems):
        yield Result("run directory", OK, f"{home.run} is yours alone")


def _state_directory(context: Context, home: AgentPaths) -> Iterator[Result]:
    if not os.path.lexists(home.state):
        yield Result("state directory", WARN, f"{home.state} is missing; 'minifram up' makes a new one, without memory")
        return
    problem = problem_with_directory(home.state, context.uid)
    yield Result("state directory", FAIL if problem else OK, problem or f"{home.state} is yours alone")


def _key(context: Context, home: AgentPaths) -> Iterator[Result]:
    paths = [path for path in map(home.key_file, KEYS) if os.path.lexists(path)]
    if not paths:
        yield Result("key", OK, "no key lies on disk")
    for path in paths:
        status = os.lstat(path)
        mode = stat.S_IMODE(status.st_mode)
        problem = problem_with_directory(home.places.secrets, context.uid)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != context.uid or mode & 0o077:
            problem = f"{path} must be a regular file of yours with mode 0600 (found {mode:04o})"
        if problem:
            yield Result("key", FAIL, f"{problem}; assume that others know the key")
        elif sandbox_in_use(home) == PODMAN or not is_running(home):
            yield Result("key", WARN, f"{path} lies there though the agent is down; remove it")
        else:
            yield Result("key", OK, f"{path} is readable by you alone")


def _watcher(context: Context, home: AgentPaths) -> Iterator[Result]:
    lock, in_container = home.places.watcher_lock, sandbox_in_use(home) == PODMAN
    pid = holder(lock, in_container)
    try:
        state = known_state(home)
    except (OSError, ValueError) as error:
        yield Result("watcher", WARN, f"{home.places.watcher_state}: {error}; the watcher starts without it")
        state = None
    if pid == UNKNOWN:
        yield Result("watcher", FAIL, f"{lock} is held, but not by the process it names; find it: fuser {lock}")
    elif pid is not None:
        yield Result("watcher", OK, f"running (pid {pid})")
        if state and (differs := another_code(state)):
            yield Result("watcher", WARN, differs)
    elif state is None or state.phase == watcher_file.STOPPED:
        yield Result("watcher", OK, "not running")
    else:
        yield Result("watcher", WARN, f"it died in phase {state.phase!r} without a word; 'minifram up' starts it again")
        if not in_container and (runner := orphan(state)):
            yield Result("watcher", WARN, f"its runner (pid {runner}) lives on, unwatched; 'minifram up' takes it over")
