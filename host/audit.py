"""An audit of a bare repository: is it what `minifram init` made, and has anything been planted by which the git
that works on it would do more than git. Looks only; what it finds is the PM's to judge."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from host import bare
from host.homes import Home
from infra.repository.git import GitError

OK, NOTE, WARN, FAIL = "ok", "note", "warn", "fail"
"""Good; good to know; and the two that are findings."""

SCANNED_ENTRIES = 20_000


class Result(NamedTuple):
    """What one check saw."""

    check: str
    level: str
    text: str


def audit(home: Home, uid: int) -> Iterator[Result]:
    yield from _repository(home, uid)
    yield from _configuration(home)
    yield from _planted(home)


def _repository(home: Home, uid: int) -> Iterator[Result]:
    problem = bare.problem_with_repository(home)
    if problem:
        yield Result("repository", FAIL, str(problem))
        return
    status = os.stat(home.remote)
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != uid:
        yield Result("repository", FAIL, f"{home.remote} belongs to uid {status.st_uid}, expected you ({uid})")
    elif mode & 0o077:
        yield Result("repository", WARN, f"{home.remote} has mode {mode:04o}, expected 0700: chmod 700 {home.remote}")
    else:
        yield Result("repository", OK, f"{home.remote} is bare, ours, and only yours")
    git = bare.git_on(home.remote)
    if not git.ok("show-ref", "--verify", "--quiet", "refs/heads/main"):
        yield Result("repository", FAIL, "there is no branch main; push one, or look for it: git fsck --lost-found")
    if replaced := git("for-each-ref", "--format=%(refname)", "refs/replace/").splitlines():
        text = f"{len(replaced)} replace refs make plain git show other content than what is there: git replace -l"
        yield Result("repository", WARN, text)


def _configuration(home: Home) -> Iterator[Result]:
    """Anything that `minifram init` did not write: git runs programs by such keys, as the PM."""
    try:
        found = bare.configuration(home.remote)
    except GitError:
        return  # `_repository` said so
    path = f"{home.remote}/config"
    unexpected = sorted(found.keys() - bare.EXPECTED_KEYS)
    for key in unexpected:
        if bare.names_a_program(key):
            text = f"{key} in {path} names a program or another file: git config --file {path} --unset-all {key}"
            yield Result("configuration", FAIL, text)
        else:
            yield Result("configuration", WARN, f"{key} in {path} is none of minifram's; did you set it yourself?")
    for key, value in bare.SETTINGS:
        if found.get(key.lower()) != value:
            text = f"{key} is {found.get(key.lower(), 'not set')}: git config --file {path} {key} {value}"
            yield Result("configuration", WARN, text)
            unexpected.append(key)
    if not unexpected:
        yield Result("configuration", OK, "only what 'minifram init' wrote")


def _planted(home: Home) -> Iterator[Result]:
    """Files by which a repository makes the git that works on it do more than git."""
    found = 0
    for path, why in _suspicious(home.remote):
        found += 1
        yield Result("planted", FAIL, f"{path}: {why}; remove it unless you put it there")
    if not found:
        yield Result("planted", OK, "no hooks, alternates, links or other openings in the repository")


def _suspicious(remote: str) -> Iterator[tuple[str, str]]:
    try:
        hooks = sorted(name for name in os.listdir(f"{remote}/hooks") if not name.endswith(".sample"))
    except (FileNotFoundError, NotADirectoryError):
        hooks = []
    for name in hooks:
        yield f"{remote}/hooks/{name}", "a hook, which your own pushes would run as you"
    for name, why in _OPENINGS.items():
        if os.path.lexists(f"{remote}/{name}"):
            yield f"{remote}/{name}", why
    for name in ("HEAD", "config", "packed-refs", "objects", "refs"):
        path = f"{remote}/{name}"
        if os.path.lexists(path) and not _is_plain(path):
            yield path, "neither a regular file nor a directory of its own"
    left = SCANNED_ENTRIES
    for top in ("refs", "objects"):
        for directory, directories, files in os.walk(f"{remote}/{top}"):
            for name in [*directories, *files]:
                left -= 1
                if left > 0 and not _is_plain(f"{directory}/{name}"):
                    yield f"{directory}/{name}", "neither a regular file nor a directory of its own"


_OPENINGS = {
    "objects/info/alternates": "takes objects from another place",
    "objects/info/http-alternates": "takes objects from another place",
    "info/attributes": "can name drivers for merges and diffs",
    "info/grafts": "shows another history than there is",
    "shallow": "cuts history off",
    "commondir": "makes git read another repository's configuration",
    "config.worktree": "is a second configuration",
    "worktrees": "makes other directories part of this repository",
    "modules": "holds other repositories with their own configuration",
}


def _is_plain(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:  # a push came to its end meanwhile
        return True
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)
