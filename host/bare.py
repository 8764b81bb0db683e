"""Opening the bare repository of an agent: it is looked over before any git works in it.

What is opened is bare, ours, and names no programs in its configuration: git would run them as the PM."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from host.homes import Home
from host.trouble import Trouble
from infra.contract.exit_codes import Exit
from infra.repository.git import Git, GitError, Person

CANNOT_START = 127
"""Status of a GitError when there is no git to run."""

MARKER = "minifram.agent"
SETTINGS = (
    ("gc.packRefs", "false"),
    ("core.fsync", "all"),
    ("transfer.fsckObjects", "true"),
    ("receive.denyDeletes", "true"),
    ("receive.denyNonFastForwards", "true"),
)
"""What `minifram init` puts into the repository's configuration beside git's own lines (DESIGN §4)."""

EXPECTED_KEYS = frozenset(
    [key.lower() for key, _ in SETTINGS]
    + [MARKER, "core.repositoryformatversion", "core.filemode", "core.bare", "extensions.objectformat"]
    + ["core.symlinks", "core.ignorecase", "core.precomposeunicode"]  # what git finds out about the file system
)
_PROGRAM = re.compile(
    r"include(if)?\..*|core\.(hookspath|fsmonitor|sshcommand|gitproxy|pager|editor|askpass|worktree|attributesfile"
    r"|alternaterefscommand)|.*\.(command|cmd|driver|textconv|clean|smudge|process|program|helper|path|external"
    r"|packobjectshook|uploadpack|receivepack|vcs|proxy|askpass|tool)|(alias|url|protocol|credential|gpg|hook)\..*"
    r"|extensions\.(?!objectformat).*"
)
"""Keys that name a program to run, another file to read, or another place to work in."""


def open_repository(home: Home, person: Person | None = None) -> Git:
    """Git on the agent's bare repository. Raises Trouble when it is missing, not bare, not ours, or tampered with."""
    trouble = problem_with_repository(home)
    if trouble:
        raise trouble
    return git_on(home.remote, person)


def git_on(remote: str, person: Person | None = None) -> Git:
    return Git(remote, person, {"GIT_DIR": remote})  # this one, whatever else git would find


def problem_with_repository(home: Home) -> Trouble | None:
    """Why this is not the repository that `minifram init` made for this agent; None when it is."""
    remote = home.remote
    if not os.path.isdir(remote) or os.path.islink(remote):
        return Trouble(Exit.NOT_FOUND, f"{remote} is no directory; expected the bare repository of {home.agent!r}")
    try:
        config = configuration(remote)
    except GitError as error:
        if error.status == CANNOT_START:
            raise
        return Trouble(
            Exit.NOT_FOUND,
            f"{remote} is no git repository (its config cannot be read: {error.stderr.strip()}); "
            "put it back from a copy, or move it away and run 'minifram init'",
        )
    if config.get("core.bare") != "true":
        return Trouble(
            Exit.NOT_FOUND,
            f"{remote} is not a bare repository (core.bare is {config.get('core.bare', 'not set')}, expected true); "
            "minifram works only on the one that 'minifram init' made",
        )
    owner = config.get(MARKER)
    if owner != home.agent:
        found = "is not set" if owner is None else f"is {owner!r}"
        return Trouble(
            Exit.NOT_FOUND,
            f"{remote} is not the repository of agent {home.agent!r}: {MARKER} in its config {found}; "
            "give the right --agent, or move it away and run 'minifram init'",
        )
    programs = sorted(key for key in config if names_a_program(key))
    if programs:
        return Trouble(
            Exit.DENIED,
            f"{remote}/config names programs or other files ({', '.join(programs)}), which 'minifram init' never "
            "writes; git would run them as you. See 'minifram doctor', then remove these keys",
        )
    try:
        git_on(remote)("rev-parse", "--git-dir")
    except GitError as error:
        return Trouble(
            Exit.NOT_FOUND, f"{remote} is no whole git repository ({error.stderr.strip()}); put it back from a copy"
        )
    return None


def configuration(remote: str) -> dict[str, str]:
    """The repository's own settings, as written; files that they include are not followed. Raises GitError."""
    listed = Git("/").raw("config", "--file", f"{remote}/config", "--no-includes", "--list", "-z")
    pairs = (item.partition("\n") for item in listed.decode(errors="replace").split("\0") if item)
    return {key: value for key, _, value in pairs}


def names_a_program(key: str) -> bool:
    return key not in EXPECTED_KEYS and _PROGRAM.fullmatch(key) is not None


def pm_of(environ: Mapping[str, str]) -> Person:
    """The PM's name and address from the PM's own git configuration; a stand-in where there is none."""
    home, xdg = environ.get("HOME", ""), environ.get("XDG_CONFIG_HOME", "")
    in_order = [f"{xdg or f'{home}/.config'}/git/config", f"{home}/.gitconfig"]
    files = [environ["GIT_CONFIG_GLOBAL"]] if environ.get("GIT_CONFIG_GLOBAL") else in_order
    found: dict[str, str] = {}
    for path in files:
        if os.path.isfile(path):
            found |= _identity(path)
    return Person(found.get("user.name") or "PM", found.get("user.email") or "pm@minifram.invalid")


def _identity(path: str) -> dict[str, str]:
    try:
        listed = Git("/")("config", "--file", path, "--includes", "-z", "--get-regexp", r"^user\.(name|email)$")
    except GitError:  # not set there, or a file that git itself will complain about
        return {}
    pairs = (item.partition("\n") for item in listed.split("\0") if item)
    # git drops these from a name and would refuse a name of nothing else
    return {key: re.sub(r"[<>\n\x00-\x1f]", "", value).strip() for key, _, value in pairs}
