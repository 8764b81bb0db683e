"""The installed `minifram` command.

Its project lies beside it as data, in `tree/`: an agent begins with those files, and the image is built from them. Only
this command and the keep's programs have that directory on their path. In `site-packages` itself nothing is called
`infra` or `host`: a checkout of the agent's whose own code is broken finds none there, and so fails as it should."""

from __future__ import annotations

import os
import sys


def main() -> int:
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tree"))
    from host import cli

    return cli.main()
