"""Making an agent: its bare repository with the first commit, its settings, its directories.

All is built beside and renamed into place as the last step, so that an agent is there whole or not at all, also after
a power cut."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from host.agent.birth import born_with, write_first_commits
from host.errors import conflict, try_again, usage
from host.paths import AgentPaths, secure_directory, secure_run_directory
from host.project import Source, first_files, mind_files
from host.repository.open import git_on
from host.repository.repair import put_hooks
from infra.shared.file_lock import lock_until
from infra.shared.files import make_directories, sync_directory, sync_tree, write_whole
from infra.shared.people import Person
from infra.shared.repository.bare_config import MARKER, SETTINGS
from infra.shared.repository.git import Git
from infra.shared.sockets import MAX_PATH_BYTES

LOCK_SECONDS = 10.0
"""How long a maker of an agent waits for another one."""


class Initialised(NamedTuple):
    """A new agent."""

    agent: str
    commit: str
    remote: str
    bot: str
    settings: str
    state: str
    run: str
    settings_kept: bool
    """True when a settings file was already there and was left as it is."""


def init_agent(
    home: AgentPaths, root: str, settings_text: str | None, default_text: str, pm: Person, uid: int
) -> Initialised:
    """Make the agent of `home` from the project at `root`.

    `settings_text` is what the PM asked for; None takes a settings file that is already there, or `default_text`.
    Raises CommandError when there is such an agent, or when the project is not whole."""
    sources, mind = first_files(root), mind_files(root)
    with making(home, lambda: _refuse_what_is_there(home, settings_text)) as unfinished, contextlib.ExitStack() as undo:
        kept = os.path.lexists(home.settings)
        commit = make_repository(f"{unfinished}/remote.git", home.agent, sources, pm, mind)
        os.mkdir(f"{unfinished}/bot", 0o700)
        for path in (home.state, home.run):
            if not os.path.lexists(path):
                undo.callback(try_to, os.rmdir, path)
        secure_directory(home.state, uid)
        secure_run_directory(home, uid)
        if not kept:
            make_directories(os.path.dirname(home.settings), 0o700)
            undo.callback(try_to, os.unlink, home.settings)
            write_whole(home.settings, (settings_text or default_text).encode(), mode=0o600)
        sync_tree(unfinished)  # git syncs what it writes from then on, and no directory
        os.rename(unfinished, home.data)
        undo.pop_all()
    return Initialised(home.agent, commit, home.remote, home.places.bot, home.settings, home.state, home.run, kept)


@contextlib.contextmanager
def making(home: AgentPaths, refuse: Callable[[], None]) -> Iterator[str]:
    """A directory beside the agent's place, which the body fills and renames into place; gone when it fails.

    One name has one maker at a time. Raises CommandError when there is another, what `refuse` raises, and for an agent
    whose sockets nobody could connect to."""
    longest = max(len(os.fsencode(path)) for path in (home.places.model_socket, home.places.git_socket))
    if longest > MAX_PATH_BYTES:
        raise usage(
            f"sockets in {home.run} would have paths of {longest} bytes; at most {MAX_PATH_BYTES} are possible: "
            "give a shorter name with --agent, or set XDG_RUNTIME_DIR to a shorter directory"
        )
    base = os.path.dirname(home.data)
    make_directories(base, 0o700)
    lock = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Agents are made one after another, so the other maker is done soon.
        if not lock_until(lock, time.monotonic() + LOCK_SECONDS):
            raise try_again(f"another 'minifram init' or 'restore' works in {base}; try again")
        refuse()
        unfinished = f"{base}/.{home.agent}.new"
        shutil.rmtree(unfinished, ignore_errors=True)  # an earlier init or restore that was killed
        try:
            os.mkdir(unfinished, 0o700)
            yield unfinished
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        sync_directory(base)
    finally:
        os.close(lock)


def make_repository(path: str, agent: str, sources: list[Source], pm: Person, mind: Sequence[Source] = ()) -> str:
    """A bare repository of ours at `path` with the first commit on main, and that of the mind; gives main's."""
    git = make_empty_repository(path, agent, pm)
    write_first_commits(git, born_with(agent, sources, mind), pm)
    return git("rev-parse", "--verify", "refs/heads/main")


def make_empty_repository(path: str, agent: str, pm: Person) -> Git:
    """A bare repository of ours that has no commit yet."""
    os.mkdir(path, 0o700)
    Git(path)("init", "--quiet", "--bare", "--template=", "--initial-branch=main", path)
    git = git_on(path, pm)
    for key, value in (*SETTINGS, (MARKER, agent)):
        git("config", "--file", f"{path}/config", key, value)
    put_hooks(path)
    sync_tree(path)  # git itself leaves HEAD to the kernel
    return git


def _refuse_what_is_there(home: AgentPaths, settings_text: str | None) -> None:
    is_empty = os.path.isdir(home.data) and not os.path.islink(home.data) and not os.listdir(home.data)
    if os.path.lexists(home.data) and not is_empty and not os.path.lexists(home.remote):
        raise conflict(
            f"{home.data} is there and holds no agent (expected {home.remote}); "
            "put that back from a copy, or move the directory away and run 'minifram init' again"
        )
    if os.path.lexists(home.data) and not is_empty:
        raise conflict(
            f"agent {home.agent!r} is already initialised ({home.data}); "
            f"start it with 'minifram up', or give another name with --agent"
        )
    if os.path.isdir(home.state) and os.listdir(home.state):
        raise conflict(
            f"{home.state} holds the state of an earlier agent {home.agent!r}; "
            "a new one must not begin with it: move it away, then run 'minifram init' again"
        )
    if settings_text is not None and os.path.lexists(home.settings):
        raise conflict(
            f"{home.settings} is already there, and --sandbox, --model or --autonomy would change it; "
            "leave these options out to keep the file, or move it away"
        )


def try_to(remove: Callable[[str], None], path: str) -> None:
    with contextlib.suppress(OSError):  # already unwinding from the error that counts
        remove(path)
