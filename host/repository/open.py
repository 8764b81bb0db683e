"""Opening the bare repository of an agent: it is looked over before any git works in it.

What is opened is bare, ours, holds nothing but files and directories where git looks (`audit` says what is looked at),
and names no programs in its configuration: git would run them as the PM. What is given is a git with little time,
room for answers, and memory, because what the commits hold is the agent's."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping

from host.context import Context
from host.errors import CommandError, denied, not_found
from host.paths import AgentPaths
from host.repository import audit, repair
from infra.shared.people import Person
from infra.shared.repository.bare_config import EXPECTED_KEYS, MARKER
from infra.shared.repository.git import CANNOT_START, EMPTY_TREE, Git, GitError, GitLimits

GIT_SECONDS = 20.0
"""For all git calls of one look at the repository; a command that continues to look has as much for each look."""
LIMITS = GitLimits(answer_bytes=64 << 20, memory_bytes=2 << 30)
SHOWN = 3
"""Findings that an error names; `minifram doctor` names all."""

_HARMLESS = re.compile(
    r"(user|author|committer)\.(name|email)|gc\.(auto|autopacklimit|autodetach|\w*expire\w*|aggressive\w+)"
    r"|core\.(compression|loosecompression|logallrefupdates|fsyncmethod|sharedrepository|abbrev|bigfilethreshold|\w+timeout)"
    r"|pack\.(compression|depth|threads|window\w*|\w+limit)|(receive|transfer|fetch)\.(\w*fsckobjects|\w+limit)"
    r"|receive\.(autogc|deny\w+|keepalive|maxinputsize)|transfer\.hiderefs|i18n\.\w+encoding|maintenance\.auto"
    r"|remote\.[^.]+\.(url|pushurl|fetch|push|prune|mirror|tagopt|skip\w+)|branch\..+\.(remote|merge|description)"
)
"""Further keys that a PM may well set. With no `protocol.*` beside it, the url of a remote runs nothing."""


def open_repository(home: AgentPaths, person: Person | None = None) -> Git:
    """Git on the agent's bare repository. Raises CommandError when it is missing, not bare, not ours, or tampered
    with."""
    if problem := problem_with_repository(home):
        raise problem
    return git_on(home.remote, person).within(GIT_SECONDS)


def open_as_pm(context: Context) -> Git:
    """The same for the agent that the command names, with the PM as the author of commits."""
    return open_repository(context.initialised(), pm_of(context.environ))


def git_on(remote: str, person: Person | None = None) -> Git:
    """Git on a bare repository that was looked over: this one, whatever else git would find."""
    # No attributes but git's own: with them a commit could keep its changes out of what the PM is shown.
    return Git(remote, person, {"GIT_DIR": remote, "GIT_ATTR_SOURCE": EMPTY_TREE}, limits=LIMITS)


def problem_with_repository(home: AgentPaths) -> CommandError | None:
    """Why this is not the repository that `minifram init` made for this agent; None when it is."""
    remote = home.remote
    if not os.path.isdir(remote) or os.path.islink(remote):
        return not_found(f"{remote} is not a directory; expected the bare repository of {home.agent!r}")
    if found := list(itertools.islice(audit.quick(remote, os.geteuid()), SHOWN + 1)):
        return tampered_with(remote, found, "minifram does not work in it")
    if emptied := repair.emptied(remote):
        return not_found(
            f"{remote}/{emptied[0]} is empty, as a power cut can leave it: "
            "'minifram up' writes it again, and so does 'minifram doctor'"
        )
    try:
        config = configuration(remote)
    except GitError as error:
        if error.status == CANNOT_START:
            raise
        return not_found(
            f"{remote} is not a git repository (its config cannot be read: {error.stderr.strip()}); "
            "put it back from a copy, or move it away and run 'minifram init'"
        )
    if config.get("core.bare") != "true":
        return not_found(
            f"{remote} is not a bare repository (core.bare is {config.get('core.bare', 'not set')}, expected true); "
            "minifram works only on the one that 'minifram init' made; 'minifram doctor' says what else is different"
        )
    if (owner := config.get(MARKER)) != home.agent:
        found_owner = "is not set" if owner is None else f"is {owner!r}"
        return not_found(
            f"{remote} is not the repository of agent {home.agent!r}: {MARKER} in its config {found_owner}; "
            "give the right --agent, or move it away and run 'minifram init'"
        )
    if programs := sorted(key for key in config if names_a_program(key)):
        return denied(
            f"{remote}/config names programs, other files, or what minifram does not know ({', '.join(programs)}); "
            "'minifram init' never wrote that, and git would run programs as you. See 'minifram doctor', then remove "
            "these keys"
        )
    try:
        git_on(remote).within(GIT_SECONDS)("rev-parse", "--git-dir")
    except GitError as error:
        return not_found(f"{remote} is not a whole git repository ({error.stderr.strip()}); put it back from a copy")
    return None


def tampered_with(remote: str, found: list[audit.Finding], so: str) -> CommandError:
    shown = "; ".join(audit.in_words(remote, each) for each in found[:SHOWN])
    more = ", and more" if len(found) > SHOWN else ""
    return denied(
        f"the repository has been tampered with or is damaged, so {so}: {shown}{more}. "
        "'minifram down' first, so that nobody writes there meanwhile; 'minifram doctor' lists everything"
    )


def configuration(remote: str) -> dict[str, str]:
    """The repository's own settings, as written; files that they include are not followed. Raises GitError."""
    git = Git("/", limits=LIMITS).within(GIT_SECONDS)
    return _pairs(git.raw("config", "--file", f"{remote}/config", "--no-includes", "--list", "-z"))


def names_a_program(key: str) -> bool:
    """Whether git may run a program by `key`, read another file or work in another place; in doubt it may.

    New versions of git bring new keys of that sort, so what is not known to be harmless is not."""
    return key not in EXPECTED_KEYS and _HARMLESS.fullmatch(key) is None


def pm_of(environ: Mapping[str, str]) -> Person:
    """The PM's name and address from the PM's own git configuration; a stand-in where there is none."""
    found = _own_settings(environ, r"^user\.(name|email)$")
    # git drops these from a name and would refuse a name of nothing else
    found = {key: re.sub(r"[<>\n\x00-\x1f]", "", value).strip() for key, value in found.items()}
    return Person(found.get("user.name") or "PM", found.get("user.email") or "pm@minifram.invalid")


def hooks_elsewhere(environ: Mapping[str, str]) -> str:
    """Where the PM's own git configuration has git look for the hooks of every repository; empty for nowhere else."""
    return _own_settings(environ, r"^core\.hookspath$").get("core.hookspath", "")


def _own_settings(environ: Mapping[str, str], keys: str) -> dict[str, str]:
    """Those of the PM's own git configuration whose key matches the regular expression."""
    home, xdg = environ.get("HOME", ""), environ.get("XDG_CONFIG_HOME", "")
    in_order = [f"{xdg or f'{home}/.config'}/git/config", f"{home}/.gitconfig"]
    found: dict[str, str] = {}
    for path in [environ["GIT_CONFIG_GLOBAL"]] if environ.get("GIT_CONFIG_GLOBAL") else in_order:
        if os.path.isfile(path):
            try:
                found |= _pairs(Git("/").raw("config", "--file", path, "--includes", "-z", "--get-regexp", keys))
            except GitError:  # not set there, or a file that git itself will complain about
                continue
    return found


def _pairs(listed: bytes) -> dict[str, str]:
    parts = (item.partition("\n") for item in listed.decode(errors="replace").split("\0") if item)
    return {key: value for key, _, value in parts}
