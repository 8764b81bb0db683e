"""`minifram serve` as a process, over the agents of a desk, and what asks it."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

import httpx2

from tests.host.desk import Desk
from tests.host.test_talk import recorded

REPORT = """\
Directive: 01234567

I wrote src/primes.py and its test.
"""
RECORD = """\

#### Recorded by the keep

- since 2026-01-31T10:00:00.000Z
- 3 model calls, $0.1200, 400 tokens, 4 s in the model
- commits: 2 on main (+38 -0 lines)
- tests run by the keep: none
"""


class Served(NamedTuple):
    desk: Desk
    process: subprocess.Popen[str]
    link: str
    """As it was printed, with the token."""

    @property
    def base(self) -> str:
        return self.link.partition("/enter")[0]

    @property
    def token(self) -> str:
        return self.link.partition("token=")[2]

    def program(self) -> httpx2.Client:
        """A program with the token."""
        return httpx2.Client(base_url=self.base, headers={"authorization": f"Bearer {self.token}"}, timeout=60)

    @contextlib.contextmanager
    def browser(self) -> Iterator[httpx2.Client]:
        """What has opened the link: it sends the cookie, and says where its forms stood."""
        with httpx2.Client(base_url=self.base, headers={"origin": self.base}, timeout=60) as browser:
            browser.get(self.link)
            yield browser


@contextlib.contextmanager
def serving(desk: Desk, *words: str) -> Iterator[Served]:
    process = desk.spawn("serve", "--listen", "127.0.0.1:0", *words)
    try:
        assert process.stderr is not None
        while "token=" not in (line := process.stderr.readline()):
            assert line, process.wait(10)
        yield Served(desk, process, line.strip())
    finally:
        process.terminate()
        process.communicate(timeout=20)


def key_in(page: str, act: str) -> str:
    """The key of the first form for an act."""
    found = re.search(rf'/act/{act}">\s*<input type="hidden" name="key" value="([0-9a-f]+)"', page)
    assert found, page
    return found[1]


def furnish(desk: Desk) -> None:
    """A directive, a report with its evidence and one without, a branch that passed, a mind."""
    desk.done("tell", "build a thing")
    desk.report("main@0123abc done: the parser", "Directive: 89abcdef\n\nAll tests pass.")
    page = desk.page()
    whole = f"### 2026-01-31T10:42:12.345Z main@0123abc done: primes\n\n{REPORT}{RECORD}\n"
    desk.write_page(f"{page.rstrip()}\n\n{whole}")
    commit = desk.branch("improve", {"infra/cell/b.py": "import os\n\nprint(os.name)\n", "tests/test_b.py": "x = 1\n"})
    desk.examined("improve", commit)
    recorded(desk, "0123456789abcdef", command="git push origin HEAD:main")
    desk.puts_mind({"memory/beliefs.md": BELIEFS, "tasks/inbox.md": "# Inbox\n", "skills/core/.keep": ""})


BELIEFS = """\
# Beliefs

## B-000001
Claim: The port of the test server is 8080.
Subject: test server
Confidence: 0.8
Status: active
Type: observed
Provenance: []
Added: "2026-01-31"
"""
