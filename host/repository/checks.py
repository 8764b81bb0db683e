"""The checks of `minifram doctor` on an agent's bare repository: is it what `minifram init` made, and does anything
make the git that works on it do more than git. They only look; what is found is the PM's to judge."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from host.errors import CommandError
from host.paths import AgentPaths
from host.repository import audit
from host.repository.open import GIT_SECONDS, configuration, git_on, names_a_program, problem_with_repository
from host.repository.repair import HOOKS, is_hook
from host.repository.review import main_commit
from infra.shared.branches import MAIN
from infra.shared.repository.bare_config import EXPECTED_KEYS, SETTINGS
from infra.shared.repository.git import CANNOT_START, GitError

OK, NOTE, WARN, FAIL = "ok", "note", "warn", "fail"
"""Good; good to know; and the two that are findings."""
SHOWN = 20
"""Findings of one kind: thousands would flood the PM's screen."""
CONTENT_SECONDS = 10.0
FSCK_LINES = 3


class Result(NamedTuple):
    """The result of one check."""

    check: str
    level: str
    text: str


def check_repository(home: AgentPaths, uid: int) -> Iterator[Result]:
    """Raises GitError and OSError for what it could not look at."""
    found = sorted(audit.thorough(home.remote, uid), key=lambda each: not each.stops)
    stopped = any(each.stops for each in found)
    if stopped:
        text = f"git was not run in {home.remote}, because of what is listed as planted; remove that and look again"
        yield Result("repository", FAIL, text)
    else:
        yield from _repository(home)
    if not any(each.stops and each.path in ("", "config") for each in found):
        yield from _configuration(f"{home.remote}/config")
    for each in found[:SHOWN]:
        yield Result("planted", FAIL if each.stops else WARN, audit.in_words(home.remote, each))
    if len(found) > SHOWN:
        text = f"{len(found) - SHOWN:,} more of these in {home.remote}; remove them and look again"
        yield Result("planted", FAIL, text)
    if not found:
        yield Result("planted", OK, "no alternates, links or other openings in the repository")
    yield from _hooks(home.remote)
    if not stopped:
        yield _content(home.remote)


def _repository(home: AgentPaths) -> Iterator[Result]:
    if problem := problem_with_repository(home):
        yield Result("repository", FAIL, str(problem))
        return
    mode = stat.S_IMODE(os.stat(home.remote).st_mode)
    if mode & 0o077:
        yield Result("repository", WARN, f"{home.remote} has mode {mode:04o}, expected 0700: chmod 700 {home.remote}")
    else:
        yield Result("repository", OK, f"{home.remote} is bare, ours, and only yours")
    git = git_on(home.remote).within(GIT_SECONDS)
    try:
        main_commit(git)
    except CommandError as error:
        yield Result("repository", FAIL, str(error))
    if replaced := git("for-each-ref", "--format=%(refname)", "refs/replace/"):
        many = replaced.count("\n") + 1
        text = f"{many} replace refs make plain git show other content than what is there: git replace -l"
        yield Result("repository", WARN, text)
    with open(f"{home.remote}/HEAD", "rb") as file:
        head = file.read(100)
    if head != f"ref: refs/heads/{MAIN}\n".encode():
        text = f"HEAD holds {head!r}, so a clone begins on something else: git symbolic-ref HEAD refs/heads/{MAIN}"
        yield Result("repository", WARN, text)


def _configuration(path: str) -> Iterator[Result]:
    """Anything that `minifram init` did not write: git runs programs by such keys, as the PM."""
    try:
        found = configuration(os.path.dirname(path))
    except GitError:
        return  # `_repository` said so
    results = []
    for key in sorted(found.keys() - EXPECTED_KEYS):
        if names_a_program(key):
            text = f"{key} in {path} may name a program or another file: git config --file {path} --unset-all {key}"
            results.append(Result("configuration", FAIL, text))
        else:
            text = f"{key} in {path} is none of minifram's; did you set it yourself?"
            results.append(Result("configuration", WARN, text))
    for key, value in SETTINGS:
        if found.get(key.lower()) != value:
            text = f"{key} is {found.get(key.lower(), 'not set')}: git config --file {path} {key} {value}"
            results.append(Result("configuration", WARN, text))
    yield from results or [Result("configuration", OK, "only what 'minifram init' wrote")]


def _hooks(remote: str) -> Iterator[Result]:
    try:
        names = {f"hooks/{name}" for name in os.listdir(f"{remote}/hooks") if not name.endswith(".sample")}
    except (FileNotFoundError, NotADirectoryError):
        names = set()
    ours = {name for name in names if is_hook(remote, name)}
    for name in sorted(names - ours):
        text = f"{remote}/{name}: a hook, which your own pushes would run as you; remove it unless you put it there"
        yield Result("hooks", FAIL, text)
    for name in HOOKS.keys() - names:
        text = f"{remote}/{name} is missing, so {HOOKS[name].without}: 'minifram up' puts it there"
        yield Result("hooks", WARN, text)
    if len(ours) == len(HOOKS):
        text = "your own pushes by path are guarded against planted links, and are on the disk when git confirms them"
        yield Result("hooks", OK, text)


def _content(remote: str) -> Result:
    """Whether each object is what its name says: git itself believes the name."""
    try:
        git_on(remote).within(CONTENT_SECONDS)("fsck", "--full", "--no-dangling", "--no-reflogs", "--no-progress")
    except GitError as error:
        if error.status == CANNOT_START:
            raise
        if error.status is None:
            text = f"not all objects were checked in {CONTENT_SECONDS:g} s; in your own time: git -C {remote} fsck"
            return Result("content", NOTE, text)
        said = [line for line in (error.stdout.decode(errors="replace") + error.stderr).split("\n") if line]
        more = f" (and {len(said) - FSCK_LINES} lines more)" if len(said) > FSCK_LINES else ""
        text = f"git fsck: {'; '.join(said[:FSCK_LINES])}{more}: put what is damaged back from a clone of yours"
        return Result("content", FAIL, text)
    return Result("content", OK, "every object is what its name says")
