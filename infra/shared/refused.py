"""Why the git door took nothing of a push, a line each: words for whoever reads, and behind them, for a program, which
rule it was and which file. `refused: REF: WHY [ID "PATH"]`."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from infra.shared.secret_shapes import redacted

TAINTED = "tainted"
"""The rule whose refusals wait for the PM's trust."""
_LINE = re.compile(r'refused: (?P<ref>.*?): (?P<why>.*) \[(?P<id>[a-z-]+)(?: (?P<path>"(?:[^"\\]|\\.)*"))?\]')


class Refused(NamedTuple):
    id: str
    """Of the rule."""
    ref: str
    path: str
    """Empty for what is about no file."""
    why: str
    """With what to do instead."""

    def line(self, known: tuple[bytes, ...] = ()) -> str:
        """Behind `refused: `. Without the secrets that are `known`, which a name can hold as well."""
        ref = self.ref if self.ref.isprintable() else ascii(self.ref)
        tag = " ".join(filter(None, (self.id, self.path and json.dumps(self.path))))
        return redacted(f"{ref}: {self.why} [{tag}]", known)


def refusals_in(said: str) -> list[Refused]:
    """Those in what git wrote about a push."""
    found = (_LINE.search(line.rstrip()) for line in said.splitlines())
    return [Refused(each["id"], each["ref"], json.loads(each["path"] or '""'), each["why"]) for each in found if each]
