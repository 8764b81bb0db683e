"""A small agent below one scratch directory: a bare repository that begins with the candidate's files, a clone of it,
and settings for two doors of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass

from infra.keep.git_door.tips import read_tip
from infra.keep.repository.bare_tip import BareTip
from infra.shared import comms
from infra.shared.branches import MAIN
from infra.shared.paths import PAGE, Paths
from infra.shared.people import Person
from infra.shared.repository.git import Git
from infra.shared.repository.tip import advance, commit_tree, edit_file, read_file, tree_with, write_file

PM = Person("PM of the rehearsal", "pm@rehearsal.invalid")
NOTE = "src/rehearsal.md"
"""What the first directive asks for. It, and the branch's name, stand in script.yaml as well."""
NOTE_TEXT = "one line\n"
NEXT = "rehearsed"
FIRST = f"Write {NOTE} with one line, commit it, and push it to main."
SECOND = f"Bootstrap the branch {NEXT}."
DONE = "The file of the rehearsal is on main."
GIT_SECONDS = 20.0
"""For all that git does in a moment of it."""
_MAIN = f"refs/heads/{MAIN}"
_SCRIPT = os.path.join(os.path.dirname(__file__), "script.yaml")
_SETTINGS = """\
# minifram writes this file for a rehearsal.
autonomy: merge
model: {{provider: scripted, name: {script}}}
protected: {{branches: []}}
"""


@dataclass(frozen=True)
class Scene:
    root: str

    @property
    def places(self) -> Paths:
        return Paths(bot=f"{self.root}/b", remote=f"{self.root}/r.git", run=f"{self.root}/s", var=f"{self.root}/v")

    @property
    def settings_path(self) -> str:
        return f"{self.places.var}/minifram.yaml"

    @property
    def bare(self) -> Git:
        return Git(self.places.remote, PM, {"GIT_DIR": self.places.remote}).within(GIT_SECONDS)

    def make_directories(self) -> None:
        """And the settings; what is started from now on has its temporary files here, too. Raises OSError."""
        places, temporary = self.places, f"{self.root}/t"
        for path in (places.bot, places.run, places.var, temporary, places.signals):
            os.mkdir(path, mode=0o700)
        with open(self.settings_path, "w", encoding="utf-8") as file:
            file.write(_SETTINGS.format(script=json.dumps(_SCRIPT)))
        os.environ["TMPDIR"] = temporary

    def make_repository(self, commit: str, pack: bytes) -> str:
        """Main is a commit with this one's files and a page with one directive, and the clone is at it; gives that
        commit. Raises GitError."""
        Git(self.root).within(GIT_SECONDS)("init", "--quiet", "--bare", "--template=", self.places.remote)
        git = self.bare
        git("index-pack", "--stdin", stdin=pack)
        page = write_file(git, comms.add_directive(comms.with_sections(""), FIRST))
        main = commit_tree(git, tree_with(git, commit, {PAGE: page}), (), f"a rehearsal of {commit}")
        git("update-ref", _MAIN, main, "")
        places = self.places
        clone = ("clone", "--quiet", "--template=", "--branch", MAIN, places.remote, places.main_checkout)
        Git(places.bot).within(GIT_SECONDS)(*clone)
        return main

    # The PM's side.

    def main(self) -> str:
        """The commit it is at, read so cheaply that it can be read all the time. Raises Unreadable."""
        return read_tip(self.places.remote, MAIN)

    def page(self) -> str:
        """Raises GitError."""
        return comms.with_sections(read_file(self.bare, _MAIN, PAGE) or "")

    def note(self) -> str:
        """Raises GitError."""
        return read_file(self.bare, _MAIN, NOTE) or ""

    def direct(self, directive: str) -> None:
        """Raises CommsError, GitError, TipBusy."""
        self._edit(lambda page: comms.add_directive(page, directive))

    def tick_all(self) -> None:
        """So that the next boot begins with nothing to do. Raises CommsError, GitError, TipBusy."""
        self._edit(lambda page: comms.tick(page, tuple(wish.id for wish in comms.open_directives(page))))

    def _edit(self, edit: Callable[[str], str]) -> None:
        git = self.bare
        advance(BareTip(git), edit_file(git, PAGE, lambda page: edit(comms.with_sections(page)), "directives"))
