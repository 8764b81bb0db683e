"""What a new agent is born with: the first commits of its branches, and a mind for an older agent that has none."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from host.display import Say
from host.paths import AgentPaths
from host.project import Source, mind_files
from host.repository.open import git_on
from infra.shared.branches import MAIN, MIND
from infra.shared.files import sync_directory
from infra.shared.people import Person
from infra.shared.repository.git import Git, GitError

_BODY = "init agent {agent}\n\nIts body is minifram's own code; from here on it is the agent's to improve.\n"
_MIND = (
    "init the mind of {agent}\n\nMemory, skills and tasks have a history of their own: code rolls back without them.\n"
)


_USES_MIND = "infra/cell/mind"
"""In the agent's own code, what works with its mind."""


class FirstCommit(NamedTuple):
    branch: str
    message: str
    sources: Iterable[Source]


def born_with(agent: str, body: Iterable[Source], mind: Iterable[Source]) -> tuple[FirstCommit, ...]:
    """No mind without files for it."""
    commits = [FirstCommit(MAIN, _BODY.format(agent=agent), body)]
    files = tuple(mind)
    return (*commits, FirstCommit(MIND, _MIND.format(agent=agent), files)) if files else tuple(commits)


def write_first_commits(git: Git, commits: Iterable[FirstCommit], person: Person) -> None:
    """Each as a branch without a parent. A branch that is there stays as it is. Raises GitError."""
    # One pack instead of one object for each file: every object of its own would be synced to disk by itself.
    options = ("-c", "fastimport.unpackLimit=1", "fast-import", "--quiet", "--done", "--date-format=now")
    parts = [part for commit in commits for part in _import_stream(commit, person)]
    git(*options, stdin=b"".join([*parts, b"done\n"]))


def give_mind(home: AgentPaths, root: str, pm: Person, say: Say) -> None:
    """An agent from before there were minds gets one. That it cannot be given one is said, and stops nothing. Raises
    CommandError when the project has none to give."""
    git, ref = git_on(home.remote, pm), f"refs/heads/{MIND}"
    if os.path.lexists(f"{home.remote}/{ref}"):  # also when it is damaged: it is not for us to replace
        return
    try:
        if git.ok("show-ref", "--verify", "--quiet", ref):
            return
        files = mind_files(root)
        write_first_commits(git, [FirstCommit(MIND, _MIND.format(agent=home.agent), files)], pm)
        for directory in ("objects/pack", "refs/heads"):
            sync_directory(f"{home.remote}/{directory}")
        uses_it = git("ls-tree", "--name-only", f"refs/heads/{MAIN}", _USES_MIND)
    except (GitError, OSError) as error:
        say(f"the agent has no branch {MIND!r}, and could not be given one: {error}")
        return
    say(f"the agent has a mind now: branch {MIND!r}, {len(files)} files ('minifram mind')")
    if not uses_it:
        say(f"its own code on {MAIN} is from before there were minds, and does not use it until {_USES_MIND} is there")


def _import_stream(commit: FirstCommit, person: Person) -> list[bytes]:
    """git-fast-import(1): one commit that holds these files."""
    head = f"commit refs/heads/{commit.branch}\ncommitter {person.name} <{person.email}> now\n"
    parts = [head.encode(), _data(commit.message.encode())]
    for source in commit.sources:
        content = b""
        if source.file:
            with open(source.file, "rb") as file:
                content = file.read()
        mode = "100755" if source.executable else "100644"
        parts += [f"M {mode} inline {source.path}\n".encode(), _data(content)]
    return parts


def _data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)
