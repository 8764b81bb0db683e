"""What the doors write, bounded: many words are moved to `.1`, by a copy, because the doors hold the file open."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable

import structlog

from infra.shared.safe_files import OLDER


class Outputs:
    def __init__(self, paths: Iterable[str], rotate_over: int, log: structlog.stdlib.BoundLogger) -> None:
        self._paths = tuple(dict.fromkeys(paths))
        self._rotate_over = rotate_over
        self._log = log

    def bound(self) -> None:
        for path in self._paths:
            try:
                if os.stat(path).st_size > self._rotate_over:
                    shutil.copyfile(path, path + OLDER)
                    os.truncate(path, 0)
            except FileNotFoundError:
                continue
            except OSError as error:  # no space for the copy: the bound counts for more than old words
                self._log.warning("doors.log_lost", reason=str(error))
                with contextlib.suppress(OSError):
                    os.truncate(path, 0)
