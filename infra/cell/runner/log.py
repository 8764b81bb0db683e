"""The runner's log, on stderr, which the watcher has pointed at logs/errors.log."""

from __future__ import annotations

from infra.shared.boot import Boot
from infra.shared.log import Log, to_stderr


def logger(boot: Boot) -> Log:
    return Log(to_stderr).bind(branch=boot.branch, commit=boot.commit, boot_id=boot.id)
