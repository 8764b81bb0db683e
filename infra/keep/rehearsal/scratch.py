"""A small agent below one scratch directory: a bare repository that begins where the candidate is, the candidate's
clone of it, and settings for two doors of its own.

Of the candidate's checkout only the objects are read, where they lie: git never runs in it, so none of its settings,
hooks and filters counts for anything."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from infra.keep.git_door.tips import Unreadable, read_tip
from infra.keep.rehearsal.findings import Outage, Stage, Unfit, as_outage
from infra.shared import comms
from infra.shared.branches import MAIN, problem_with_branch
from infra.shared.paths import Paths
from infra.shared.people import Person
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.page_text import PAGE
from infra.shared.repository.tip import (
    BareTip,
    TipBusy,
    advance,
    commit_tree,
    edit_file,
    read_file,
    tree_with,
    write_file,
)
from infra.shared.sockets import MAX_PATH_BYTES
from infra.shared.subreaper import become_subreaper

PM = Person("PM of the rehearsal", "pm@rehearsal.invalid")
NOTE = "src/rehearsal.md"
"""What the first directive asks for. It, and the branch's name, stand in script.yaml as well."""
NOTE_TEXT = "one line\n"
NEXT = "rehearsed"
FIRST = f"Write {NOTE} with one line, commit it, and push it to main."
SECOND = f"Bootstrap the branch {NEXT}."
DONE = "The file of the rehearsal is on main."
CANNOT_HOP = "The branch of the rehearsal could not be bootstrapped."
GIT_SECONDS = 20.0
"""For all that git does to prepare it."""
_MAIN = "refs/heads/main"
_SCRIPT = os.path.join(os.path.dirname(__file__), "script.yaml")
_SETTINGS = """\
# minifram writes this file for a rehearsal.
autonomy: merge
model: {{provider: scripted, name: {script}}}
protected: {{branches: []}}
"""


@dataclass(frozen=True)
class RehearsedVersion:
    checkout: str
    branch: str
    commit: str
    python: str

    def name(self) -> str:
        return f"{self.branch}@{self.commit[:12]}"


@dataclass(frozen=True)
class Scratch:
    root: str
    places: Paths

    @property
    def settings_path(self) -> str:
        return f"{self.places.var}/minifram.yaml"

    @property
    def temporary(self) -> str:
        return f"{self.root}/t"

    @property
    def bare(self) -> Git:
        return Git(self.places.remote, PM, {"GIT_DIR": self.places.remote}).within(GIT_SECONDS)

    # The PM's side.

    def main(self) -> str:
        """The commit it is at, read so cheaply that it can be read all the time. Raises Outage."""
        try:
            commit = read_tip(self.places.remote, MAIN)
        except Unreadable as error:
            raise Outage(f"the scratch repository does not say where main is: {error}") from error
        if not commit:
            raise Outage("main of the scratch repository is gone")
        return commit

    def page(self) -> str:
        return comms.with_sections(read_file(self.bare, _MAIN, PAGE) or "")

    def note(self) -> str:
        return read_file(self.bare, _MAIN, NOTE) or ""

    def direct(self, directive: str) -> None:
        self._edit(lambda page: comms.add_directive(page, directive))

    def tick_all(self) -> None:
        """So that the next boot begins with nothing to do."""
        self._edit(lambda page: comms.tick(page, tuple(wish.id for wish in comms.open_directives(page))))

    def _edit(self, edit: Callable[[str], str]) -> None:
        git = self.bare
        advance(BareTip(git), edit_file(git, PAGE, lambda page: edit(comms.with_sections(page)), "directives"))


def stand_apart() -> None:
    """All descendants are ours to end, and none may look into us. Raises OSError."""
    become_subreaper()
    # The candidate has our user: it must not reach our answer through /proc.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    os.umask(0o022)


_PR_SET_DUMPABLE = 4


def begin(scratch: str) -> Scratch:
    """Directories of our own below `scratch`. Raises Outage."""
    if not os.path.isabs(scratch):
        raise Outage(f"the scratch directory {scratch!r} must be an absolute path")
    with as_outage(f"no directory can be made in {scratch}; it must be a directory that this user may write to"):
        root = tempfile.mkdtemp(prefix="r", dir=scratch)
    made = Scratch(root, Paths(bot=f"{root}/b", remote=f"{root}/r.git", run=f"{root}/s", var=f"{root}/v"))
    try:
        with as_outage(f"the scratch directory {scratch} cannot be used"):
            _furnish(made)
    except BaseException:
        clear_away(made)
        raise
    return made


def clear_away(made: Scratch) -> None:
    """Raises Outage."""
    with as_outage(f"{made.root} cannot be removed"):
        if not remove(made.root):
            raise Outage(f"{made.root} cannot be removed; remove it by hand")


def remove(root: str, seconds: float = 3 * GIT_SECONDS) -> bool:
    """Remove all below and with `root` within `seconds`, however deep and however closed its directories are; whether
    nothing is there any more. Raises OSError when no program can be started."""
    until = time.monotonic() + seconds
    for words in (["rm", "-rf", "--one-file-system"], ["chmod", "-R", "u+rwX"], ["rm", "-rf", "--one-file-system"]):
        with contextlib.suppress(TimeoutError):
            _quietly([*words, "--", root], max(0.0, until - time.monotonic()))
        if not os.path.lexists(root):
            return True
    return False


def _furnish(made: Scratch) -> None:
    places = made.places
    if max(len(os.fsencode(path)) for path in (places.model_socket, places.git_socket)) > MAX_PATH_BYTES:
        raise Outage(f"{made.root} is too long a path for the doors' sockets; give a shorter scratch directory")
    for path in (places.bot, places.run, places.var, made.temporary, places.signals):
        os.mkdir(path, mode=0o700)
    with open(made.settings_path, "w", encoding="utf-8") as file:
        file.write(_SETTINGS.format(script=json.dumps(_SCRIPT)))
    # The git door's part in a clone is a program: where none runs, every candidate would look unfit.
    probe = f"{made.root}/probe"
    with open(probe, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n")
    os.chmod(probe, 0o700)
    if _quietly([probe]) != 0:
        raise Outage(f"no program can be run in {made.root}; give a scratch directory that is not mounted noexec")
    os.unlink(probe)


def _quietly(words: list[str], seconds: float = GIT_SECONDS) -> int:
    """The status of a small command. Raises OSError, also when it takes too long."""
    try:
        quiet = subprocess.DEVNULL
        return subprocess.run(words, stdin=quiet, stdout=quiet, stderr=quiet, timeout=seconds, check=False).returncode
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"{words[0]} took over {seconds:g} s") from error


def make_repository(made: Scratch, version: RehearsedVersion, objects: str) -> None:
    """The bare repository: main is the candidate's commit and a page with one directive. `objects`: where its own
    lie. Raises Unfit, Outage."""
    with as_outage("the scratch repository cannot be made"), _git_that_fails(version):
        Git(made.root).within(GIT_SECONDS)("init", "--quiet", "--bare", "--template=", made.places.remote)
        with open(f"{made.places.remote}/objects/info/alternates", "wb") as file:
            file.write(os.fsencode(objects) + b"\n")
        git = made.bare
        if resolve_commit(git, version.commit) != version.commit:
            raise Unfit(Stage.CLONE, f"{version.checkout} does not hold the commit {version.commit}; clone it again")
        page = write_file(git, comms.add_directive(comms.with_sections(""), FIRST))
        tree = tree_with(git, version.commit, {PAGE: page})
        main = commit_tree(git, tree, (version.commit,), f"a rehearsal of {version.name()}")
        git("update-ref", _MAIN, main, "")


def make_clone(made: Scratch, version: RehearsedVersion) -> str:
    """The candidate's clone of main; gives the commit it is at. Raises Unfit, Outage."""
    checkout = made.places.main_checkout
    with as_outage("the scratch clone cannot be made"), _git_that_fails(version):
        os.makedirs(os.path.dirname(checkout))
        git = Git(made.places.bot).within(GIT_SECONDS)
        git("clone", "--quiet", "--template=", "--branch", "main", made.places.remote, checkout)
        os.makedirs(f"{checkout}/.git/info", exist_ok=True)
        os.makedirs(f"{checkout}/logs", exist_ok=True)
        return made.main()


def objects_of(version: RehearsedVersion) -> str:
    """Where the candidate's objects lie: in a plain clone of its own. Raises Unfit, Outage."""
    problem, checkout = problem_with_branch(version.branch), version.checkout
    if problem:
        raise Outage(problem)
    if not re.fullmatch(r"[0-9a-f]{40}", version.commit):
        raise Outage(f"{version.commit!r} is not a commit's sha; the watcher names one")
    if not os.path.isabs(checkout) or "\n" in checkout:
        raise Outage(f"{checkout!r} is not an absolute path of one line")
    repository = f"{checkout}/.git"
    for path in (checkout, repository, f"{repository}/objects"):
        if not stat.S_ISDIR(_mode(path)):
            raise Unfit(Stage.CLONE, f"{path} is not a real directory (a link, or missing); make a clone there")
    if _mode(f"{repository}/objects/info/alternates"):
        raise Unfit(Stage.CLONE, f"{checkout} borrows its objects from elsewhere; clone without --shared")
    if _mode(f"{repository}/shallow"):
        raise Unfit(Stage.CLONE, f"{checkout} has a part of its history only; run git fetch --unshallow there")
    return f"{repository}/objects"


def _mode(path: str) -> int:
    """0 when there is nothing. Raises Outage."""
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        raise Outage(f"{path} cannot be looked at: {error}") from error


@contextmanager
def _git_that_fails(version: RehearsedVersion) -> Iterator[None]:
    """Git that cannot read the candidate's objects speaks of them; git that is stopped, or lacks memory, does not."""
    try:
        yield
    except TipBusy as error:
        raise Outage(str(error)) from error
    except GitError as error:
        if error.is_machines:
            raise Outage(f"git could not prepare the rehearsal: {error}") from error
        why = f"git cannot read {version.name()} out of {version.checkout} ({error}); clone it again"
        raise Unfit(Stage.CLONE, why) from error
