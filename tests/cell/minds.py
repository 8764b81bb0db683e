"""The branch `mind` of an agent in a test, as the PM pushes to it."""

from __future__ import annotations

from infra.keep.repository.bare_tip import BareTip
from infra.shared.mind.layout import INBOX
from infra.shared.repository.git import Git
from infra.shared.repository.tip import advance, edit_file, read_file
from tests.cell.cell import PM, Cell
from tests.shared.repository.history import commit

MIND_FILES = {INBOX: "# Inbox\n", "memory/working.md": "# Working\n", ".gitignore": "/logs/events\n/scratch/\n"}


def block(id: str, text: str, priority: str = "medium", more: str = "") -> str:
    return f"---\ntask_id: {id}\npriority: {priority}\n{more}---\n\n# Task description\n{text}\n\n"


class PmMind:
    """The PM's side of the mind, at the bare repository."""

    def __init__(self, cell: Cell, files: dict[str, str] | None = None) -> None:
        self._git = Git(cell.places.remote, PM, env={"GIT_DIR": cell.places.remote})
        commit(self._git, {**MIND_FILES, **(files or {})}, branch="mind")

    def add(self, *blocks: str) -> None:
        self.edit(lambda text: text + "".join(blocks))

    def edit(self, change: object, path: str = INBOX) -> None:
        advance(BareTip(self._git, "mind"), edit_file(self._git, path, change, "the PM's"))  # type: ignore[arg-type]

    def files(self) -> list[str]:
        return self._git("ls-tree", "-r", "--name-only", "mind").splitlines()

    def read(self, path: str) -> str:
        """Empty when it is not there."""
        return read_file(self._git, "mind", path) or ""
