"""The small world of a rehearsal below one scratch directory: a bare repository that begins where the candidate is,
the candidate's clone of it, and settings for two doors of its own.

Of the candidate's checkout only the objects are read, where they lie: git never runs in it, so none of its settings,
hooks and filters counts for anything."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from infra.keep.git_door.mainline import Unreadable, read_main
from infra.keep.rehearsal.findings import Outage, Step, Unfit, as_outage
from infra.shared import comms
from infra.shared.branches import problem_with_branch
from infra.shared.people import Person
from infra.shared.places import Places
from infra.shared.repository.git import CANNOT_START, Git, GitError, resolve_commit
from infra.shared.repository.tip import BareTip, TipBusy, advance, commit_tree, edit_file, read_file, tree_with
from infra.shared.sockets import MAX_PATH_BYTES

PM = Person("PM of the rehearsal", "pm@rehearsal.invalid")
PAGE = "COMMS.md"
NOTE = "src/rehearsal.md"
"""What the first directive asks for. It, and the branch's name, stand in script.yaml as well."""
NOTE_TEXT = "one line\n"
NEXT = "rehearsed"
FIRST = f"Write {NOTE} with one line, commit it, and push it to main."
SECOND = f"Bootstrap the branch {NEXT}."
DONE = "The file of the rehearsal is on main."
CANNOT_HOP = "The branch of the rehearsal could not be bootstrapped."
GIT_SECONDS = 20.0
"""For all that git does to set the scene."""
_SCRIPT = os.path.join(os.path.dirname(__file__), "script.yaml")
_SETTINGS = """\
# minifram writes this file for a rehearsal.
autonomy: merge
model: {{provider: scripted, script: {script}}}
intervals: {{poll_seconds: 0.25}}
protected: {{branches: []}}
"""
_OF_THE_MACHINE = (
    *("No space left", "Disk quota", "Input/output error", "Read-only file system", "Too many open files"),
    *("Cannot allocate", "Out of memory", "out of memory", "Resource temporarily unavailable"),
)
"""Words of the kernel in git's own: they say nothing of the objects."""


@dataclass(frozen=True)
class Candidate:
    """What is to be rehearsed."""

    checkout: str
    branch: str
    commit: str
    python: str

    def name(self) -> str:
        return f"{self.branch}@{self.commit[:12]}"


@dataclass(frozen=True)
class Scene:
    root: str
    places: Places

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
        """The commit it is at, asked so cheaply that it can be asked all the time. Raises Outage."""
        try:
            commit = read_main(self.places.remote)
        except Unreadable as error:
            raise Outage(f"the scratch repository does not say where main is: {error}") from error
        if commit is None:
            raise Outage("main of the scratch repository is gone")
        return commit

    def page(self) -> str:
        return read_file(self.bare, "refs/heads/main", PAGE) or ""

    def note(self) -> str:
        return read_file(self.bare, "refs/heads/main", NOTE) or ""

    def tell(self, directive: str) -> None:
        git = self.bare
        edit = edit_file(git, PAGE, lambda page: comms.add_directive(comms.with_sections(page), directive), "directive")
        advance(BareTip(git), edit)

    def take_back_all(self) -> None:
        """Tick whatever is open, so that the next life begins with nothing to do."""
        git = self.bare

        def ticked(page: str) -> str:
            page = comms.with_sections(page)
            return comms.tick(page, tuple(wish.id for wish in comms.open_directives(page)))

        advance(BareTip(git), edit_file(git, PAGE, ticked, "directives"))


def begin(scratch: str) -> Scene:
    """Directories of our own below `scratch`. Raises Outage."""
    if not os.path.isabs(scratch):
        raise Outage(f"the scratch directory {scratch!r} must be an absolute path")
    with as_outage(f"no directory can be made in {scratch}; it must be a directory that this user may write to"):
        root = tempfile.mkdtemp(prefix="r", dir=scratch)
    scene = Scene(root, Places(bot=f"{root}/b", remote=f"{root}/r.git", run=f"{root}/s", var=f"{root}/v"))
    try:
        with as_outage(f"the scratch directory {scratch} cannot be used"):
            _furnish(scene)
    except BaseException:
        clear_away(scene)
        raise
    return scene


def clear_away(scene: Scene) -> None:
    """Remove all of the scene, however deep and however closed its directories were made. Raises Outage."""
    for words in (["rm", "-rf", "--one-file-system"], ["chmod", "-R", "u+rwX"], ["rm", "-rf", "--one-file-system"]):
        with as_outage(f"{scene.root} cannot be removed"):
            _quietly([*words, "--", scene.root])
            if not os.path.lexists(scene.root):
                return
    raise Outage(f"{scene.root} cannot be removed; remove it by hand")


def _furnish(scene: Scene) -> None:
    places = scene.places
    if max(len(os.fsencode(path)) for path in (places.model_socket, places.git_socket)) > MAX_PATH_BYTES:
        raise Outage(f"{scene.root} is too long a path for the doors' sockets; give a shorter scratch directory")
    for path in (places.bot, places.run, places.var, scene.temporary, places.signals):
        os.mkdir(path, mode=0o700)
    with open(scene.settings_path, "w", encoding="utf-8") as file:
        file.write(_SETTINGS.format(script=json.dumps(_SCRIPT)))
    # The git door's part in a clone is a program: where none runs, every candidate would look unfit.
    probe = f"{scene.root}/probe"
    with open(probe, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n")
    os.chmod(probe, 0o700)
    if _quietly([probe]) != 0:
        raise Outage(f"no program can be run in {scene.root}; give a scratch directory that is not mounted noexec")
    os.unlink(probe)


def _quietly(words: list[str]) -> int:
    """The status of a small command. Raises OSError, also when it takes too long."""
    try:
        quiet = subprocess.DEVNULL
        return subprocess.run(
            words, stdin=quiet, stdout=quiet, stderr=quiet, timeout=GIT_SECONDS, check=False
        ).returncode
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"{words[0]} took over {GIT_SECONDS:g} s") from error


def make_repository(scene: Scene, candidate: Candidate) -> None:
    """The bare repository: main is the candidate's commit and a page with one directive. Raises Unfit, Outage."""
    objects = _objects_of(candidate)
    with as_outage("the scratch repository cannot be made"), _git_that_fails(candidate):
        Git(scene.root).within(GIT_SECONDS)("init", "--quiet", "--bare", "--template=", scene.places.remote)
        with open(f"{scene.places.remote}/objects/info/alternates", "wb") as file:
            file.write(os.fsencode(objects) + b"\n")
        git = scene.bare
        if resolve_commit(git, candidate.commit) != candidate.commit:
            raise Unfit(Step.CLONE, f"{candidate.checkout} does not hold the commit {candidate.commit}; clone it again")
        page = comms.add_directive(comms.with_sections(""), FIRST)
        blob = git("hash-object", "-w", "--stdin", stdin=page.encode())
        tree = tree_with(git, candidate.commit, {PAGE: blob})
        main = commit_tree(git, tree, (candidate.commit,), f"a rehearsal of {candidate.name()}")
        git("update-ref", "refs/heads/main", main, "")


def make_clone(scene: Scene, candidate: Candidate) -> str:
    """The candidate's clone of main; gives the commit it is at. Raises Unfit, Outage."""
    checkout = scene.places.main_checkout
    with as_outage("the scratch clone cannot be made"), _git_that_fails(candidate):
        os.makedirs(os.path.dirname(checkout))
        git = Git(scene.places.bot).within(GIT_SECONDS)
        git("clone", "--quiet", "--template=", "--branch", "main", scene.places.remote, checkout)
        os.makedirs(f"{checkout}/.git/info", exist_ok=True)
        os.makedirs(f"{checkout}/logs", exist_ok=True)
        return scene.main()


def _objects_of(candidate: Candidate) -> str:
    """Where the candidate's objects lie: in a plain clone of its own. Raises Unfit, Outage."""
    problem = problem_with_branch(candidate.branch)
    if problem:
        raise Outage(problem)
    if not re.fullmatch(r"[0-9a-f]{40}", candidate.commit):
        raise Outage(f"{candidate.commit!r} is no commit's sha; the watcher names one")
    if not os.path.isabs(candidate.checkout) or "\n" in candidate.checkout:
        raise Outage(f"{candidate.checkout!r} is no absolute path of one line")
    repository = f"{candidate.checkout}/.git"
    for path in (candidate.checkout, repository, f"{repository}/objects"):
        if not _has_mode(path, stat.S_ISDIR):
            raise Unfit(Step.CLONE, f"{path} is no directory of its own (a link, or nothing); make a real clone there")
    if _has_mode(f"{repository}/objects/info/alternates", lambda mode: True):
        raise Unfit(Step.CLONE, f"{candidate.checkout} borrows its objects from elsewhere; clone without --shared")
    if _has_mode(f"{repository}/shallow", lambda mode: True):
        raise Unfit(Step.CLONE, f"{candidate.checkout} has a part of its history only; run git fetch --unshallow there")
    return f"{repository}/objects"


def _has_mode(path: str, wanted: Callable[[int], bool]) -> bool:
    try:
        return wanted(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise Outage(f"{path} cannot be looked at: {error}") from error


@contextmanager
def _git_that_fails(candidate: Candidate) -> Iterator[None]:
    """Git that cannot read the candidate's objects speaks of them; git that is stopped, or lacks memory, does not."""
    try:
        yield
    except TipBusy as error:
        raise Outage(str(error)) from error
    except GitError as error:
        if error.status in (None, CANNOT_START) or any(words in error.stderr for words in _OF_THE_MACHINE):
            raise Outage(f"git could not set the scene: {error}") from error
        if error.status is not None and error.status < 0:
            raise Outage(f"git was ended while it set the scene: {error}") from error
        why = f"git cannot read {candidate.name()} out of {candidate.checkout} ({error}); clone it again"
        raise Unfit(Step.CLONE, why) from error
