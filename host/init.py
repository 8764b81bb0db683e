"""`init`: an agent's bare repository with its first commits, its settings, its directories.

All is built beside and renamed into place as the last step, so that an agent is there whole or not at all, also after a
power cut."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from host.cli import command
from host.errors import CommandError, conflict, usage
from host.home import AgentPaths, Context, secure_directory, secure_run_directory, sync_tree
from host.project import Source, first_files, mind_files
from host.repository import git_on, pm_of
from host.running import PODMAN, PROCESS
from host.screen import Say, Shown, strong
from host.settings import file_text
from infra.keep.repository import bare_tip
from infra.keep.repository.bare_config import config_text
from infra.keep.settings.check import read_settings
from infra.keep.settings.models import PROVIDERS
from infra.keep.sockets import MAX_PATH_BYTES
from infra.shared.branches import MAIN, MIND
from infra.shared.files import sync, write_whole
from infra.shared.people import Person
from infra.shared.repository.git import Git

_BODY = "init agent {agent}\n\nIts body is minifram's own code; from here on it is the agent's to improve.\n"
_MIND = (
    "init the mind of {agent}\n\nMemory, skills and tasks have a history of their own: code rolls back without them.\n"
)


@command
@click.option(
    "--sandbox",
    type=click.Choice([PODMAN, PROCESS]),
    help="podman: a sealed container (default); process: your own user, without any isolation.",
)
@click.option("--model", type=click.Choice(["auto", *PROVIDERS]), help="The model's provider (default: auto).")
@click.option(
    "--autonomy",
    type=click.Choice(["merge", "propose", "frozen"]),
    help="merge: the agent merges what the keep examined (default); propose: only you move main; frozen: reports only.",
)
@click.option("--from", "file", type=click.Path(exists=True, dir_okay=False), help="Begin with what a backup holds.")
def init(
    context: Context, say: Say, sandbox: str | None, model: str | None, autonomy: str | None, file: str | None
) -> Shown:
    """Make a new agent: its bare repository with a first commit, its settings, its directories.

    Without a usable podman it fails and says what is missing; --sandbox process is your word that the agent may run as
    you.

    \b
    Examples:
      minifram init
      minifram init --agent second --model anthropic --autonomy propose
    """
    home = context.home
    given = {"sandbox": sandbox, "autonomy": autonomy, "model.provider": model}
    chosen = {key: value for key, value in given.items() if value}
    kept = os.path.lexists(home.settings)
    refuse_what_is_there(home)
    if kept and chosen:
        raise conflict(
            f"{home.settings} is already there, and --sandbox, --model or --autonomy would change it; leave these "
            "options out to keep the file, or move it away"
        )
    if (read_settings(home.settings).sandbox if kept else sandbox or PODMAN) == PODMAN:
        _check_podman(context)
    settings = file_text(context.agent, {"sandbox": PODMAN} | chosen)
    commit = init_agent(home, context.root, settings, pm_of(context.environ), context.uid, file, say)
    paths = {"remote": home.remote, "bot": home.places.bot, "settings": home.settings, "state": home.state}
    value = {"agent": home.agent, "commit": commit, **paths, "run": home.run, "settings_kept": kept}
    return Shown(value, _lines(home, commit, kept))


def _lines(home: AgentPaths, commit: str, kept: bool) -> Iterator[str]:
    yield f"{strong('agent')}       {home.agent}, first commit {commit[:12]} on main"
    yield f"repository  {home.remote}"
    yield f"settings    {home.settings}{' (it was there, and is kept as it is)' if kept else ''}"
    yield f"its files   {home.places.bot}"
    yield f"state       {home.state}"
    yield f"sockets     {home.run}"
    yield ""
    yield "Next: 'minifram up'"
    yield "      'minifram tell \"what the agent should do\"'"
    yield f"      git clone {shlex.quote(home.remote)}   (edit COMMS.md, commit, push: the same by hand)"


def _check_podman(context: Context) -> None:
    from host.up import usable_machine

    try:
        usable_machine(context)
    except CommandError as error:
        text = f"{error}\nTo let the agent run as you, without any isolation: 'minifram init --sandbox process'"
        raise CommandError(error.code, text) from None


def init_agent(
    home: AgentPaths, root: str, settings: str, pm: Person, uid: int, file: str | None = None, say: Say = print
) -> str:
    """Make the agent of `home` from the project at `root`, or from a backup, `file`; a settings file that is there is
    kept. Gives main's commit. Raises CommandError when there is such an agent, or when the project is not whole."""
    sources, mind = first_files(root), mind_files(root)
    with making(home) as unfinished:
        os.mkdir(f"{unfinished}/bot", 0o700)
        os.mkdir(f"{unfinished}/events", 0o755)
        secure_directory(home.state, uid)
        secure_run_directory(home, uid)
        git = make_empty_repository(f"{unfinished}/remote.git", home.agent, pm)
        if file:
            from host.backup import begin_from

            commit = begin_from(file, git, home, unfinished, say)
        else:
            commit = _first_commits(git, home.agent, sources, mind, pm)
        if not os.path.lexists(home.settings):
            os.makedirs(os.path.dirname(home.settings), 0o700, exist_ok=True)
            write_whole(home.settings, settings.encode(), mode=0o600)
        sync_tree(unfinished)  # git syncs what it writes from then on, and no directory
        os.rename(unfinished, home.data)
    return commit


@contextlib.contextmanager
def making(home: AgentPaths) -> Iterator[str]:
    """A directory beside the agent's place, which the body fills and renames into place; gone when it fails.

    One agent is made at a time. Raises CommandError for one that is there, or whose sockets nobody could connect to."""
    longest = max(len(os.fsencode(path)) for path in (home.places.model_socket, home.places.git_socket))
    if longest > MAX_PATH_BYTES:
        raise usage(
            f"sockets in {home.run} would have paths of {longest} bytes; at most {MAX_PATH_BYTES} are possible: "
            "give a shorter name with --agent, or set XDG_RUNTIME_DIR to a shorter directory"
        )
    base = os.path.dirname(home.data)
    os.makedirs(base, 0o700, exist_ok=True)
    lock = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refuse_what_is_there(home)
        unfinished = f"{base}/.{home.agent}.new"
        shutil.rmtree(unfinished, ignore_errors=True)  # of an earlier maker that was killed
        os.mkdir(unfinished, 0o700)
        try:
            yield unfinished
        except BaseException:
            for path in (unfinished, home.state, home.run):  # there was nothing in them
                shutil.rmtree(path, ignore_errors=True)
            raise
        sync(base)
    finally:
        os.close(lock)


def _first_commits(git: Git, agent: str, body: Sequence[Source], mind: Sequence[Source], pm: Person) -> str:
    """Main's first commit, and that of the mind; gives main's."""
    parts = [*_import_stream(MAIN, _BODY.format(agent=agent), body, pm)]
    parts += _import_stream(MIND, _MIND.format(agent=agent), mind, pm)
    # One pack instead of one object for each file: every object of its own would be synced to disk by itself.
    options = ("-c", "fastimport.unpackLimit=1", "fast-import", "--quiet", "--done", "--date-format=now")
    git(*options, stdin=b"".join([*parts, b"done\n"]))
    return git("rev-parse", "--verify", "refs/heads/main")


def make_empty_repository(path: str, agent: str, pm: Person) -> Git:
    """A bare repository of ours that has no commit yet."""
    os.mkdir(path, 0o700)
    Git(path)("init", "--quiet", "--bare", "--template=", "--initial-branch=main", path)
    write_whole(f"{path}/config", config_text(agent).encode())
    os.mkdir(f"{path}/hooks", 0o700)
    write_whole(f"{path}/hooks/{bare_tip.HOOK}", bare_tip.SCRIPT.encode(), 0o700)
    sync_tree(path)  # git itself leaves HEAD to the kernel
    return git_on(path, pm)


def _import_stream(branch: str, message: str, sources: Sequence[Source], person: Person) -> Iterator[bytes]:
    """git-fast-import(1): one commit without a parent that holds these files."""
    yield f"commit refs/heads/{branch}\ncommitter {person.name} <{person.email}> now\n".encode()
    yield _data(message.encode())
    for source in sources:
        yield f"M {'100755' if source.executable else '100644'} inline {source.path}\n".encode()
        yield _data(Path(source.file).read_bytes() if source.file else b"")


def _data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


def refuse_what_is_there(home: AgentPaths) -> None:
    """Raises CommandError for an agent, or the state of an earlier one."""
    if os.path.islink(home.data) or (os.path.lexists(home.data) and os.listdir(home.data)):
        raise conflict(
            f"agent {home.agent!r} is already there ({home.data}); start it with 'minifram up', give another name with "
            "--agent, or move that directory away"
        )
    if os.path.isdir(home.state) and os.listdir(home.state):
        raise conflict(
            f"{home.state} holds the state of an earlier agent {home.agent!r}; "
            "a new one must not begin with it: move it away, then run 'minifram init' again"
        )
