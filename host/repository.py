"""Git on the agent's bare repository.

Git obeys the repository's configuration, and would run the programs that it names as the PM. So the configuration has
to be what `minifram init` wrote, to the byte, and the repository the caller's own. Each look has little time, room for
answers, and memory, because what the commits hold is the agent's."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Mapping

from host.errors import CommandError, denied, not_found
from host.home import AgentPaths, Context
from infra.keep.repository.bare_config import config_text
from infra.keep.repository.bare_tip import BareTip
from infra.shared.branches import MAIN
from infra.shared.paths import PAGE
from infra.shared.people import Person
from infra.shared.repository.git import EMPTY_TREE, Git, GitError, GitLimits, resolve_commit
from infra.shared.repository.tip import TreeEntry, advance, commit_tree, read_file, tree_with, write_file
from infra.shared.safe_files import whole_file

GIT_SECONDS = 20.0
"""For all git calls of one look at the repository; a command that continues to look has as much for each look."""
LIMITS = GitLimits(answer_bytes=64 << 20, memory_bytes=2 << 30)
_CONFIG_BYTES = 64 << 10


def open_repository(home: AgentPaths, person: Person | None = None) -> Git:
    """Git on the agent's repository, with `person` as the author of commits. Raises CommandError for one that
    `minifram init` did not make."""
    if problem := problem_with_repository(home):
        raise problem
    return git_on(home.remote, person).within(GIT_SECONDS)


def open_as_pm(context: Context) -> Git:
    """The same for the agent that the command names, with the PM as the author."""
    return open_repository(context.initialised(), pm_of(context.environ))


def git_on(remote: str, person: Person | None = None) -> Git:
    """Git on this bare repository, whatever else git would find."""
    # No attributes but git's own: with them a commit could keep its changes out of what the PM is shown.
    return Git(remote, person, {"GIT_DIR": remote, "GIT_ATTR_SOURCE": EMPTY_TREE}, limits=LIMITS)


def problem_with_repository(home: AgentPaths) -> CommandError | None:
    """Why this is not the repository that `minifram init` made for this agent; None when it is."""
    remote = home.remote
    try:
        status = os.lstat(remote)
        found = whole_file(f"{remote}/config", _CONFIG_BYTES).decode(errors="replace")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return not_found(f"{remote} is not the bare repository of {home.agent!r} ({why}); put it back from a backup")
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        return denied(
            f"{remote} has owner {status.st_uid} and mode {stat.S_IMODE(status.st_mode):04o}; expected a directory "
            f"that only you (uid {os.geteuid()}) can write to: others could make git run programs as you"
        )
    if found != (wanted := config_text(home.agent)):
        return denied(
            f"{remote}/config is not what 'minifram init' wrote, and git would run the programs that it names as you. "
            f"Look who wrote that, then write the file again as:\n{wanted}"
        )
    return None


def main_commit(git: Git) -> str:
    """What main is. Raises CommandError where there is none, or its commit cannot be read."""
    ref = f"refs/heads/{MAIN}"
    with contextlib.suppress(GitError):
        if commit := resolve_commit(git, ref):
            return commit
    named = git("for-each-ref", "--format=%(objectname)", ref)
    if not named:
        raise not_found(f"{git.directory} has no branch main; push one, or find it: git fsck --lost-found")
    put_back = f"git -C CLONE pack-objects --all --stdout </dev/null | git -C {git.directory} unpack-objects"
    raise not_found(
        f"main names commit {named[:12]}, which cannot be read; put it back from a clone that has it: {put_back}"
    )


def edit_branch(
    git: Git, branch: str, change: Callable[[str], tuple[Mapping[str, TreeEntry | str | None], str]]
) -> tuple[str, str]:
    """One commit on a branch, whoever else moves it: what it was at, and is at now. `change(seen)` gives the paths that
    change (a text, an entry, None for gone) and the message; nothing is committed where nothing differs."""
    before = ""

    def next_commit(seen: str) -> str | None:
        nonlocal before
        before, (paths, message) = seen, change(seen)
        entries = {path: write_file(git, new) if isinstance(new, str) else new for path, new in paths.items()}
        tree = tree_with(git, seen, entries)
        return None if tree == git("rev-parse", f"{seen}^{{tree}}") else commit_tree(git, tree, (seen,), message)

    commit = advance(BareTip(git, branch), next_commit)
    return before, commit


def page_at(git: Git, commit: str) -> str:
    """COMMS.md of a commit; empty when there is none."""
    return read_file(git, commit, PAGE) or ""


def pm_of(environ: Mapping[str, str]) -> Person:
    """The PM's name and address from the PM's own git configuration; a stand-in where there is none."""
    home = environ.get("HOME", "")
    beside = f"{environ.get('XDG_CONFIG_HOME') or f'{home}/.config'}/git/config"
    usual = f"{home}/.gitconfig"
    file = environ.get("GIT_CONFIG_GLOBAL") or (usual if os.path.isfile(usual) else beside)
    found = dict[str, str]()
    for key in ("user.name", "user.email"):
        with contextlib.suppress(GitError):  # not set there, or a file that git itself will complain about
            value = Git("/")("config", "--file", file, "--includes", "--get", key)
            # git drops these from a name and would refuse a name of nothing else
            found[key] = re.sub(r"[<>\n\x00-\x1f]", "", value).strip()
    return Person(found.get("user.name") or "PM", found.get("user.email") or "pm@minifram.invalid")
