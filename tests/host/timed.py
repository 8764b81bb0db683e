"""The command minifram with a watcher whose timing is the test's own."""

from __future__ import annotations

import sys

from host.cli import main as command
from host.home import this_process
from tests.keep.supervision import timed_watcher


def main() -> int:
    return command(context=this_process()._replace(watcher=(sys.executable, "-s", "-P", "-m", timed_watcher.PROGRAM)))


if __name__ == "__main__":
    sys.exit(main())
