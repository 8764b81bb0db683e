"""The questions that are open, as files of the keep's: written whole, read again, removed."""

from __future__ import annotations

import os

from structlog.typing import FilteringBoundLogger

from infra.shared import questions
from infra.shared.files import sync_directory, write_whole
from infra.shared.questions import Question


class QuestionFiles:
    def __init__(self, directory: str, log: FilteringBoundLogger) -> None:
        self._directory = directory
        self._log = log

    def all(self) -> list[Question]:
        """Oldest first. A file that holds no question is passed over and logged: its call is asked about anew. Raises
        OSError."""
        try:
            names = sorted(filter(questions.is_file_name, os.listdir(self._directory)))
        except FileNotFoundError:
            return []
        found = [question for name in names if (question := self._read(name))]
        return sorted(found, key=lambda question: question.asked_at)

    def add(self, question: Question) -> None:
        """On the disk when this returns. Raises OSError."""
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        write_whole(self._path(question.id), questions.encode(question), mode=0o600)

    def remove(self, *removed: Question) -> None:
        """Raises OSError."""
        for question in removed:
            os.unlink(self._path(question.id))
        if removed:
            sync_directory(self._directory)

    def _read(self, name: str) -> Question | None:
        try:
            with open(os.path.join(self._directory, name), "rb") as file:
                return questions.decode(file.read(questions.MOST_BYTES), name)
        except (OSError, ValueError) as error:
            self._log.error("question.not_readable", file=name, error=str(error))
            return None

    def _path(self, id: str) -> str:
        return os.path.join(self._directory, questions.file_name(id))
