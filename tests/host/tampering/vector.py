"""One attempt: what is planted, what plain git makes of it, and what minifram is to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from tests.host.tampering.site import Site

REFUSED, WORKS = "refused", "works"
"""What the PM's verbs do: say what is planted and do nothing, or do their work as if it were not there."""

RUNS, WAITS, OUTSIDE, FOOLED, BLOCKED, NOTHING = (
    "runs the program",
    "waits for ever",
    "leaves the repository",
    "is fooled",
    "fails",
    "makes nothing of it",
)
"""What plain git does with it."""
DONE = "done"
"""The PM's own clone, pull and push, when nothing of that happens."""

VERBS = {
    "status": ("status",),
    "reports": ("reports",),
    "review": ("review",),
    "review improve": ("review", "improve"),
    "tell": ("tell", "do this"),
    "merge": ("merge", "improve@TIP"),
    "reject": ("reject", "other", "--because", "no"),
    "rollback": ("rollback", "main~1"),
}
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""What steers a terminal, or hides or reorders what it shows."""

Plant = Callable[[Site], None]
Control = Callable[[Site], str]


class Vector(NamedTuple):
    line: str
    """Of the list of attacks: `S21`."""
    attempt: str
    plant: Plant
    control: Control
    """Has plain git meet it, and says in one of the words above what came of that."""
    does: str
    """What it is known to come to; the proof that the attempt is one."""
    verbs: str
    """`REFUSED` or `WORKS`."""
    finding: str
    """What `minifram doctor` names; empty when there is nothing to be found."""
    pm: tuple[str, str, str] | None = None
    """Where the container's reach ends below objects and refs, and this lies within: what becomes of the PM's own
    clone, pull and push by path."""
    other: tuple[str, ...] = ()
    """The verbs that do not do what the others do."""


class Row(NamedTuple):
    """A line of the table."""

    id: str
    attempt: str
    expected: str
    seen: str


def runs(words: str, stdin: str = "", terminal: bool = False) -> Control:
    """Whether the program ran at `git words`."""

    def control(site: Site) -> str:
        site.plain(*words.split(), cwd=site.remote, stdin=stdin, terminal=terminal)
        ran = site.mark.exists()
        site.mark.unlink(missing_ok=True)
        return RUNS if ran else NOTHING

    return control


def waits(words: str) -> Control:
    def control(site: Site) -> str:
        return WAITS if site.git(words).status is None else NOTHING

    return control


def fooled(words: str, true: str, stdin: str = "") -> Control:
    """Whether git says anything else than what is true."""

    def control(site: Site) -> str:
        said = site.git(words, stdin)
        if said.status:
            return BLOCKED
        return NOTHING if said.text.strip() == true else FOOLED

    return control


def goes_outside(words: str, stdin: str = "") -> Control:
    """Whether anything outside changed, or what stands there is what git says."""

    def control(site: Site) -> str:
        before = outside(site)
        site.git(words, stdin)
        return NOTHING if outside(site) == before else OUTSIDE

    return control


def outside(site: Site) -> dict[str, bytes]:
    """All files outside, and what is in them."""
    return {str(path): path.read_bytes() for path in sorted(site.outside.rglob("*")) if path.is_file()}
