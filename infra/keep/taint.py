"""Whether the agent has read the web since the PM last trusted it: one bit, from the web door's trace and one number.

The bit is set by the first page that is served, and lifted by the PM alone: by a commit on main, in the PM's own name,
with the trailer `Trust: web`. That covers what was served before the commit was made. The git door takes no such
trailer from the agent (`decide`)."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from infra.keep.cut_logs import OLDER
from infra.keep.verdicts.paths import is_guarded
from infra.shared.branches import MAIN
from infra.shared.clock import moment, timestamp
from infra.shared.files import write_whole
from infra.shared.mind.layout import MODIFIABLE_WHEN_TAINTED
from infra.shared.people import is_the_pms
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.safe_files import opened_file, whole_file
from infra.shared.secret_shapes import redacted
from infra.shared.text import counted

NAME, TRACE = "trust.json", "web.jsonl"
"""In the keep's var; the trace as `Paths.web_trace` has it."""
UNKNOWN = "an unknown origin"
TRAILER = "Trust"
SHOWN, MOST_PATHS = 3, 20
MOST_ORIGIN_CHARS = 300
CLOCK_SECONDS = 60.0
"""A moment of trust that is later than now by more was noted by a clock that has been set back since: it counts as
none."""
_NOT_SERVED = tuple(f'"status":"{status}"'.encode() for status in ("error", "denied", "package"))
_ANSWERED = b'"answered"'
"""Text of the web came with all else; with an error as well, if the site had answered: the words may be the site's."""
_AT = b'{"at":"'
LONGEST_SECONDS = 3600.0
"""No page takes longer from its request, which the trace dates, to its text."""
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[A-Za-z0-9.:_%\[\]-]+")


class Taint(NamedTuple):
    since: float
    """When the first text was served that the PM has not trusted; seconds since the epoch."""
    origins: tuple[str, ...]
    """Of that text, the last one first."""
    until: float = 0.0
    """When the last of it was served, by the clock of then: later than now where that clock was ahead."""


class ServedText(NamedTuple):
    at: float
    origin: str


class Trust(NamedTuple):
    """What the keep remembers."""

    trusted_at: float = 0.0
    """Text that was served until then is trusted."""
    served_at: float = 0.0
    """The last text that was seen in the trace, which is bounded."""
    main: str = ""
    """Where main was when it was last searched for the PM's word."""


def look(var: str, git: Git, now: float, keep: bool = True) -> Taint | None:
    """None while nothing is tainted. Never raises: what cannot be read is text of an unknown origin, and trusted by
    nobody. With `keep`, what was found is remembered; the host only looks."""
    if not any(os.path.lexists(f"{var}/{name}") for name in (NAME, TRACE, TRACE + OLDER)):
        return None
    trust, pages = _found(var, git, now)
    if keep and trust != _remembered(var, math.inf):
        with contextlib.suppress(OSError):  # found again at the next look
            write_whole(f"{var}/{NAME}", json.dumps(trust._asdict()).encode() + b"\n", mode=0o600)
    if trust.served_at <= trust.trusted_at:
        return None
    new = [page for page in pages if page.at > trust.trusted_at]
    origins = tuple(dict.fromkeys(page.origin for page in reversed(new)))
    return Taint(min([trust.served_at, *(page.at for page in new)]), origins or (UNKNOWN,), trust.served_at)


def memory_of(var: str, git: Git, now: float) -> bytes:
    """What `look` would remember; empty for an agent that was never served any text. Never raises."""
    trust, _ = _found(var, git, now)
    return json.dumps(trust._asdict()).encode() + b"\n" if trust.served_at else b""


def _found(var: str, git: Git, now: float) -> tuple[Trust, list[ServedText]]:
    before = _remembered(var, now)
    pages = served(f"{var}/{TRACE}", now, before.trusted_at)
    served_at = max([before.served_at, *(page.at for page in pages)])
    return _trusted(before, git, now)._replace(served_at=served_at), pages


def _remembered(var: str, now: float) -> Trust:
    try:
        said = json.loads(whole_file(f"{var}/{NAME}"))
        trust = Trust(float(said["trusted_at"]), min(now, float(said["served_at"])), str(said["main"]))
    except FileNotFoundError:
        return Trust()
    except (OSError, ValueError, TypeError, KeyError):
        return Trust(served_at=now)
    return trust if trust.trusted_at <= now + CLOCK_SECONDS else trust._replace(trusted_at=0.0)


def _trusted(before: Trust, git: Git, now: float) -> Trust:
    """With the PM's word that has come onto main since. A date that lies covers nothing that comes after now."""
    try:
        main = resolve_commit(git, f"refs/heads/{MAIN}") or ""
        if main == before.main:
            return before
        asked = f"{main}\n" + (f"^{before.main}\n" if before.main else "")
        how = ("--no-commit-header", f"--format=%ct %ce %(trailers:key={TRAILER},valueonly,separator=%x2C)")
        found = git("rev-list", "--ignore-missing", "-i", f"--grep=^{TRAILER}:", *how, "--stdin", stdin=asked.encode())
        said = [line.split(" ", 2) for line in found.splitlines() if line.count(" ") >= 2]
        dates = [float(date) for date, who, what in said if is_the_pms(who) and "web" in re.split(", *", what.lower())]
    except (GitError, ValueError):
        return before
    return before._replace(trusted_at=min(max([before.trusted_at, *dates]), max(now, before.trusted_at)), main=main)


def served(trace: str, now: float, since: float) -> list[ServedText]:
    """The texts of the web that the cell was given, the oldest first, with all of `since` or later. Never raises."""
    # What is moved to the older file meanwhile is found there.
    newer = list(_served_in(trace, now, since))
    return [*_served_in(trace + OLDER, now, since), *newer]


def _served_in(path: str, now: float, since: float) -> Iterator[ServedText]:
    """A line that makes no sense stands for text that was served no later than the line after it."""
    unknown, written = False, now
    first = timestamp(max(0.0, min(since, now) - LONGEST_SECONDS)).encode()
    try:
        with opened_file(path) as file:
            written = min(now, os.fstat(file.fileno()).st_mtime)
            for line in file:
                is_served = _ANSWERED in line or not any(each in line for each in _NOT_SERVED)
                is_old = line.startswith(_AT) and line[len(_AT) :][:19] < first[:19]
                if (is_old or not is_served) and not unknown and line.endswith(b"}\n") and line.count(b"{") == 1:
                    continue  # whole: most lines of a day of installing packages
                try:
                    said = json.loads(line)
                    at = moment(said["at"]) + float(said["at"][19:23]) + said.get("duration_ms", 0) / 1000
                except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                    unknown = unknown or line.endswith(b"\n")  # one without its end was not answered yet
                    continue
                if unknown:
                    yield ServedText(at, UNKNOWN)
                    unknown = False
                if is_served:
                    yield ServedText(at, _origin(said.get("origin") or said.get("url")))
    except FileNotFoundError:
        return
    except OSError:
        unknown = True
    if unknown:
        yield ServedText(written, UNKNOWN)


_redacted = functools.lru_cache(1024)(redacted)  # a trace names few origins in many lines


def _origin(said: object) -> str:
    found = _ORIGIN.match(said) if isinstance(said, str) else None
    return _redacted(found[0][:MOST_ORIGIN_CHARS]) if found else UNKNOWN


def problem_with_guarded(taint: Taint | None, changed: Iterable[str]) -> str:
    """Why these changes come onto main by the PM alone; empty when they need not."""
    guarded = [path for path in changed if is_guarded(path)] if taint else []
    return f"{_shown(guarded)} changes, and {words(taint)}" if taint and guarded else ""


def refusal_on_main(taint: Taint | None, changed: Iterable[str]) -> str | None:
    """The same in the words that the agent reads."""
    problem = problem_with_guarded(taint, changed)
    if not problem:
        return None
    return (
        f"{problem}, so it comes onto main by the PM alone; push it to a branch of its own and end your turn with a "
        "report: the PM decides"
    )


def refusal_on_mind(taint: Taint, path: str) -> str:
    free = ", ".join(path if path.endswith(".md") else f"{path}/" for path in MODIFIABLE_WHEN_TAINTED)
    return (
        f"{_shown([path])} changes, and {words(taint)}, so it waits for the PM's trust; put it back as the branch has "
        f"it, keep your version in scratch/, and push the rest (free are {free})"
    )


def words(taint: Taint) -> str:
    return f"the agent has read the web ({origins_words(taint.origins)})"


def line_under_report(taint: Taint | None) -> str:
    """For what the keep records; empty when there is nothing to say. Origins hold no characters that mean anything to
    Markdown but brackets and underscores."""
    if taint is None:
        return ""
    origins = redacted(origins_words(taint.origins)).translate({ord(each): f"\\{each}" for each in "_[]*`"})
    return f"- **Tainted: the agent has read the web**, since {timestamp(taint.since)} ({origins})"


def origins_words(origins: Sequence[str]) -> str:
    more = len(origins) - SHOWN
    return ", ".join(origins[:SHOWN]) + (f" and {counted(more, 'more origin')}" if more > 0 else "")


def _shown(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - MOST_PATHS} more" if len(paths) > MOST_PATHS else ""
    return ", ".join(f"{path[:200]!a}" for path in paths[:MOST_PATHS]) + more
