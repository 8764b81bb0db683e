"""Git as the runner calls it in a clone of the cell's. What earlier work wrote into the clone names no program that
such a call starts: the settings that could, and all attributes, are taken out before each call."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from typing import Final

from infra.shared.files import write_whole
from infra.shared.paths import Paths
from infra.shared.people import AGENT
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.git_environment import with_settings
from infra.shared.safe_files import Below

MOST_BYTES: Final = 1 << 20
NO_SUBMODULES: Final = ("--ignore-submodules=all",)
"""A repository inside has settings of its own, and git would run by them to say whether it changed."""
ORIGIN: Final = 'remote "origin"'
_HARMLESS: Final = re.compile(
    r"core\.(filemode|logallrefupdates|symlinks|ignorecase|precomposeunicode) = (true|false)"
    r"|user\.(name|email) = [^\\\"#;]*"
    r'|remote "origin"\.url = [^\\\"#;]*'
    r'|branch "[^"\\]+"\.(remote = (origin|[.])|merge = refs/heads/[^\\"#;]*|rebase = (true|false|merges))'
)
NO_DRIVERS = "* !filter !merge !diff !text !ident !eol !working-tree-encoding\n"
"""As `info/attributes` of a repository: no file has an attribute by which git would run a program or change its bytes,
whatever any other file of attributes says (gitattributes(5))."""


class CloneGit(Git):
    """One clone, in the agent's name."""

    def __init__(self, directory: str, places: Paths, remote_url: str) -> None:
        inside = {"GIT_DIR": f"{directory}/.git", "GIT_WORK_TREE": directory}
        super().__init__(directory, AGENT, with_settings(*_programs(places, remote_url)) | inside)
        self._remote_url = remote_url

    def _start(self, words: tuple[str, ...], stdin: bytes | None) -> subprocess.Popen[bytes]:
        try:
            disarm(f"{self.directory}/.git", self._remote_url)
        except OSError as error:
            raise GitError(words, 128, f"{self.directory}/.git cannot be used: {error}") from error
        inner = NO_SUBMODULES if words[0] in ("diff", "status") else ()
        return super()._start((*words[:1], *inner, *words[1:]), stdin)


def outside(places: Paths, remote_url: str) -> Git:
    """Git where there is no repository, to make a clone or to ask the remote."""
    return Git("/", AGENT, with_settings(*_programs(places, remote_url)))


def _programs(places: Paths, remote_url: str) -> Iterator[tuple[str, str]]:
    """A clone by path reaches the git door by a program of the keep's."""
    door = f"{places.var}/door/receive-pack"
    is_by_path = remote_url.startswith("/") and os.path.exists(door)
    yield "remote.origin.receivepack", shlex.quote(door) if is_by_path else "git-receive-pack"
    yield "remote.origin.uploadpack", "git-upload-pack"
    yield "core.excludesFile", "/dev/null"


def disarm(inside: str, remote_url: str = "") -> None:
    """Of a clone's `.git`; nothing is written where nothing has to go. Without a `remote_url` it stays what it is.
    Raises OSError."""
    if not os.path.lexists(inside):
        return
    if os.path.islink(inside) or not os.path.isdir(inside):
        raise NotADirectoryError(f"{inside} is no directory")
    for name in ("commondir", "config.worktree"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{inside}/{name}")
    found = _text(inside, "config")
    if (settings := harmless(found, remote_url)) != found:
        write_whole(f"{inside}/config", settings.encode())
    if _text(inside, "info/attributes") != NO_DRIVERS:
        Below(inside).make_directory("info")
        Below(inside).write("info/attributes", NO_DRIVERS.encode())


def _text(inside: str, name: str) -> str:
    try:
        return Below(inside).whole(name, MOST_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return ""


def harmless(settings: str, remote_url: str) -> str:
    """A clone's settings, in git's form, without those that git could start a program by, or look elsewhere. Pure."""
    kept: dict[str, list[str]] = {"core": ["repositoryformatversion = 0", "bare = false"], ORIGIN: []}
    heading = ""
    for line in map(str.strip, settings.splitlines()):
        if line.startswith("["):
            heading = line[1:].removesuffix("]")
        name, _, value = line.partition("=")
        words = f"{name.strip().lower()} = {value.strip()}"
        if _HARMLESS.fullmatch(f"{heading}.{words}"):
            kept.setdefault(heading, []).append(words)
    urls = [f"url = {remote_url}"] if remote_url else kept[ORIGIN]
    kept[ORIGIN] = [*urls, "fetch = +refs/heads/*:refs/remotes/origin/*"]
    return "".join(f"[{name}]\n" + "".join(f"\t{words}\n" for words in lines) for name, lines in kept.items())
