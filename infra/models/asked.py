"""Which unit of work a call belongs to, from what the PM asked for: one unit is all that is done while the same
directives stay open on main.

The runner has no word in it. A new run, a restart or another branch leaves main's page as it is, and so the sum; the
agent can only tick directives, each once, and only the PM writes new ones. An answer of the PM's to a question is no
new work."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable

from infra.contract import comms
from infra.contract.branches import MAIN
from infra.contract.comms import CommsError
from infra.repository.git import Git, GitError, Limits
from infra.repository.page_text import PAGE

LOOK_SECONDS = 5.0
PAGE_BYTES = 8 << 20
UNKNOWN = "unknown"
"""The unit of all calls before the page could be read."""
_ANSWER = re.compile(r"(?:approve|deny)\s", re.IGNORECASE)


def unit_of(page: str) -> str:
    """The name of the unit that is under way when main's page says so."""
    try:
        wishes = [(text, done) for text, done, _ in comms.wishes(page) if not _ANSWER.match(text)]
    except CommsError:
        wishes = []
    done = Counter(text for text, is_done in wishes if is_done)
    # With how often it was done before, so that the same words said again are asked for anew.
    asked = sorted(f"{text}\0{done[text]}" for text, is_done in wishes if not is_done)
    return hashlib.sha256("\0\0".join(asked).encode(errors="surrogateescape")).hexdigest()[:32]


def unit_on_main(remote: str) -> Callable[[], str]:
    """Looks at the page of the bare repository each time; when it cannot be read, the last one that could counts."""
    git = Git(remote, env={"GIT_DIR": remote}, limits=Limits(answer_bytes=PAGE_BYTES))
    last = UNKNOWN

    def look() -> str:
        nonlocal last
        try:
            page = git.raw("cat-file", "blob", f"refs/heads/{MAIN}:{PAGE}", timeout=LOOK_SECONDS)
        except GitError:
            return last
        last = unit_of(page.decode(errors="surrogateescape"))
        return last

    return look
