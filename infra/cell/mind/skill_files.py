"""The skills in the clone of the mind: read within bounds, moved from state to state."""

from __future__ import annotations

import os
import stat
from typing import Final

from infra.cell.mind import skill_index
from infra.cell.mind.problems import MindProblem
from infra.cell.mind.skill_moves import SkillMove
from infra.cell.mind.skills import (
    FILE,
    MOST_BYTES,
    MOST_FOLDER_BYTES,
    MOST_FOLDER_FILES,
    SKILLS,
    STATUS_OF,
    Skill,
    Skills,
    skills_of,
)
from infra.shared.mind.layout import CANDIDATES, SKILLS_INDEX
from infra.shared.redacted_file import RedactedFile
from infra.shared.safe_files import Below, Entry

MOST_SKILLS: Final = 500
"""Of one state."""
_DEPTH: Final = 5


class SkillFiles:
    """Below the root of the clone."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._below = Below(root)

    def names(self, directory: str) -> list[str]:
        """Of the folders of one state, readable or not."""
        try:
            return sorted(self._below.names(f"{SKILLS}/{directory}", MOST_SKILLS))
        except OSError:
            return []

    def skills(self) -> Skills:
        """Never raises: what cannot be read is a problem."""
        files: dict[str, bytes | MindProblem] = {}
        for directory in STATUS_OF:
            for name in self.names(directory):
                path = f"{SKILLS}/{directory}/{name}/{FILE}"
                if not self._below.is_directory(os.path.dirname(path)):
                    continue
                try:
                    files[path] = self._below.whole(path, MOST_BYTES)
                except FileNotFoundError:
                    files[path] = MindProblem(path, 0, f"it is missing; expected a {FILE} in each folder")
                except OSError as error:
                    files[path] = MindProblem(path, 0, f"it cannot be read ({error}); put a text file there")
        return skills_of(files)

    def folder(self, skill: Skill) -> dict[str, bytes]:
        """All files, by their paths in the folder. Raises OSError, also for what is larger than a skill may be."""
        found: dict[str, bytes] = {}
        size = 0
        for entry in self._below.walk(skill.folder, depth=_DEPTH, most=MOST_FOLDER_FILES):
            if not isinstance(entry, Entry):
                raise OSError(f"{entry.path}: {entry.why}; a skill has at most {MOST_FOLDER_FILES} files")
            if stat.S_ISDIR(entry.status.st_mode):
                continue
            content = self._below.whole(entry.path, MOST_FOLDER_BYTES)
            size += len(content)
            if size > MOST_FOLDER_BYTES:
                raise OSError(f"{skill.folder}: more than {MOST_FOLDER_BYTES:,} bytes; a skill is small")
            found[os.path.relpath(entry.path, skill.folder)] = content
        return found

    def index(self) -> str:
        """The text; empty when it is missing. Raises OSError for what is no text of reasonable size."""
        try:
            return self._below.whole(SKILLS_INDEX, skill_index.MOST_BYTES).decode()
        except FileNotFoundError:
            return ""
        except UnicodeDecodeError as error:
            raise OSError(f"{SKILLS_INDEX}: expected UTF-8 text, but {error}; mend it, it was left as it is") from error

    def write_index(self, text: str) -> None:
        """Raises OSError."""
        RedactedFile(os.path.join(self._root, SKILLS_INDEX)).replace(text)

    def create(self, name: str, text: str) -> None:
        """A candidate. Raises OSError; FileExistsError when there is one of that name."""
        folder = os.path.join(self._root, CANDIDATES, name)
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        os.mkdir(folder)
        RedactedFile(f"{folder}/{FILE}").replace(text)

    def move(self, move: SkillMove) -> None:
        """Raises OSError; then the folder is in one of the two places, whole."""
        target = os.path.join(self._root, move.target)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        self._below.remove(move.target)
        os.rename(os.path.join(self._root, move.source), target)
        RedactedFile(f"{target}/{FILE}").replace(move.skill.text)
        self.write_index(move.listed)
