"""The shared main as the watcher sees it, where the disk does not do what it is asked."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import structlog

from infra.keep.supervision.shared_main import SharedMain
from infra.keep.watcher_file import Version
from infra.shared.paths import Paths


class Unsyncable(SharedMain):
    """A repository whose refs move, and whose directories the disk does not take."""

    def keep(self, known_good: tuple[Version, ...]) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_disk_that_does_not_sync_ends_no_watcher(tmp_path: Path) -> None:
    """What cannot be put onto the disk is logged: an agent without its watcher is worse."""
    at = str(tmp_path)
    places = Paths(f"{at}/bot", f"{at}/remote.git", f"{at}/run", f"{at}/var")
    main = Unsyncable(places, structlog.get_logger())

    with structlog.testing.capture_logs() as logged:
        main.settle((Version(commit="0" * 40, id="0123456789abcdef"),), retry_decided=True)

    assert [entry["event"] for entry in logged] == ["repository.not_settled"]
