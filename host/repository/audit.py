"""An audit of a bare repository: is it what `minifram init` made, and has anything been planted by which the git
that works on it would do more than git. Looks only; what it finds is the PM's to judge."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from host.errors import CommandError
from host.paths import AgentPaths
from host.repository import guard, openings, review
from host.repository import open as bare
from host.repository.openings import Opening
from infra.shared.branches import MAIN
from infra.shared.repository.bare_config import EXPECTED_KEYS, SETTINGS
from infra.shared.repository.git import CANNOT_START, GitError

OK, NOTE, WARN, FAIL = "ok", "note", "warn", "fail"
"""Good; good to know; and the two that are findings."""

SHOWN = 20
"""Findings of one kind; whoever plants thousands is not to flood the PM's screen."""
CONTENT_SECONDS = 10.0


class Result(NamedTuple):
    """What one check saw."""

    check: str
    level: str
    text: str


def audit(home: AgentPaths, uid: int) -> Iterator[Result]:
    """Raises GitError and OSError for what it could not look at."""
    found = list(openings.thorough(home.remote, uid))
    stopped = any(each.stops for each in found)
    if stopped:
        text = f"git was not run in {home.remote}, because of what is listed as planted; remove that and look again"
        yield Result("repository", FAIL, text)
    else:
        yield from _repository(home)
    if not any(each.stops and each.path in ("", "config") for each in found):
        yield from _configuration(home)
    yield from _planted(home, found)
    yield from _hooks(home)
    if not stopped:
        yield from _content(home)


def _repository(home: AgentPaths) -> Iterator[Result]:
    problem = bare.problem_with_repository(home)
    if problem:
        yield Result("repository", FAIL, str(problem))
        return
    mode = stat.S_IMODE(os.stat(home.remote).st_mode)
    if mode & 0o077:
        yield Result("repository", WARN, f"{home.remote} has mode {mode:04o}, expected 0700: chmod 700 {home.remote}")
    else:
        yield Result("repository", OK, f"{home.remote} is bare, ours, and only yours")
    git = bare.git_on(home.remote).within(bare.GIT_SECONDS)
    try:
        review.main_commit(git)
    except CommandError as trouble:
        yield Result("repository", FAIL, str(trouble))
    if replaced := git("for-each-ref", "--format=%(refname)", "refs/replace/"):
        many = replaced.count("\n") + 1
        text = f"{many} replace refs make plain git show other content than what is there: git replace -l"
        yield Result("repository", WARN, text)
    with open(f"{home.remote}/HEAD", "rb") as file:
        head = file.read(100)
    if head != f"ref: refs/heads/{MAIN}\n".encode():
        text = f"HEAD holds {head!r}, so a clone begins on something else: git symbolic-ref HEAD refs/heads/{MAIN}"
        yield Result("repository", WARN, text)


def _configuration(home: AgentPaths) -> Iterator[Result]:
    """Anything that `minifram init` did not write: git runs programs by such keys, as the PM."""
    try:
        found = bare.configuration(home.remote)
    except GitError:
        return  # `_repository` said so
    path = f"{home.remote}/config"
    unexpected = sorted(found.keys() - EXPECTED_KEYS)
    for key in unexpected:
        if bare.names_a_program(key):
            text = f"{key} in {path} may name a program or another file: git config --file {path} --unset-all {key}"
            yield Result("configuration", FAIL, text)
        else:
            yield Result("configuration", WARN, f"{key} in {path} is none of minifram's; did you set it yourself?")
    for key, value in SETTINGS:
        if found.get(key.lower()) != value:
            text = f"{key} is {found.get(key.lower(), 'not set')}: git config --file {path} {key} {value}"
            yield Result("configuration", WARN, text)
            unexpected.append(key)
    if not unexpected:
        yield Result("configuration", OK, "only what 'minifram init' wrote")


def _planted(home: AgentPaths, found: list[Opening]) -> Iterator[Result]:
    """Files by which a repository makes the git that works on it do more than git."""
    found = sorted(found, key=lambda each: not each.stops)
    for each in found[:SHOWN]:
        path = f"{home.remote}/{each.path}".rstrip("/")
        yield Result("planted", FAIL if each.stops else WARN, f"{path} {each.what}: {each.remedy}")
    if len(found) > SHOWN:
        yield Result(
            "planted", FAIL, f"{len(found) - SHOWN:,} more of these in {home.remote}; remove them and look again"
        )
    if not found:
        yield Result("planted", OK, "no alternates, links or other openings in the repository")


def _hooks(home: AgentPaths) -> Iterator[Result]:
    directory = f"{home.remote}/hooks"
    try:
        names = sorted(name for name in os.listdir(directory) if not name.endswith(".sample"))
    except (FileNotFoundError, NotADirectoryError):
        names = []
    ours = {name for name in names if guard.is_guard(home.remote, f"hooks/{name}")}
    for name in names:
        if name not in ours:
            text = (
                f"{directory}/{name}: a hook, which your own pushes would run as you; remove it unless you put it there"
            )
            yield Result("hooks", FAIL, text)
    for path, hook in guard.HOOKS.items():
        if os.path.basename(path) not in names:
            text = f"{home.remote}/{path} is missing, so {hook.without}: 'minifram up' puts it there"
            yield Result("hooks", WARN, text)
    if len(ours) == len(guard.HOOKS):
        text = "your own pushes by path are guarded against planted links, and are on the disk when git confirms them"
        yield Result("hooks", OK, text)


def _content(home: AgentPaths) -> Iterator[Result]:
    """Whether each object is what its name says: git itself believes the name."""
    git = bare.git_on(home.remote).within(CONTENT_SECONDS)
    try:
        git("fsck", "--full", "--no-dangling", "--no-reflogs", "--no-progress")
    except GitError as error:
        if error.status == CANNOT_START:
            raise
        if error.status is None:
            text = f"not all objects were checked in {CONTENT_SECONDS:g} s; in your own time: git -C {home.remote} fsck"
            yield Result("content", NOTE, text)
            return
        said = [line for line in (error.stdout.decode(errors="replace") + error.stderr).split("\n") if line]
        more = f" (and {len(said) - bare.SHOWN} lines more)" if len(said) > bare.SHOWN else ""
        text = f"git fsck: {'; '.join(said[: bare.SHOWN])}{more}: put what is damaged back from a clone of yours"
        yield Result("content", FAIL, text)
    else:
        yield Result("content", OK, "every object is what its name says")
