"""The verdict on one merged tree: what ran and how it ended, what the branch changed of the tests, and what of that
needs the PM's word. Pure.

The candidate's code runs in the process that runs the tests, and can forge how they end. So a verdict says what ran;
it never says that a version is safe."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from infra.keep.verdicts.findings import FAILED, PASSED, SKIPPED, Findings, Run
from infra.keep.verdicts.selection import Selection
from infra.shared.text import cut

MOST_LISTED = 40
"""Names in one list of a verdict; the rest is counted."""
MOST_FILES = 1000
"""The same for the files that ran."""


class Counts(msgspec.Struct, frozen=True):
    passed: int = 0
    failed: int = 0
    skipped: int = 0


class Verdict(msgspec.Struct, frozen=True):
    key: str
    """The merged tree without the pages (`trees.key_of`): what this verdict is for."""
    branch: str
    commit: str
    main: str
    """The commit of main that the branch was merged onto."""
    passed: bool
    why: str = ""
    """Why it has not passed; empty when it has."""
    outage: bool = False
    """No result, because something around the candidate failed. It may be examined again."""
    rehearsed: bool | None = None
    """None: the rehearsal is switched off."""
    mains: Counts = Counts()
    """Main's tests as main has them, with the branch's code."""
    own: Counts = Counts()
    """Tests of the branch that main does not have, or has otherwise."""
    failures: dict[str, str] = {}
    """The first that failed, each with the end of what pytest says of it."""
    fails_on_main: tuple[str, ...] = ()
    """Main's tests that failed, and fail with main's own code too: that says nothing against the branch."""
    again: tuple[str, ...] = ()
    """Failed at first, and passed when run once more and alone."""
    files: tuple[str, ...] = ()
    """The test files that ran."""
    left_out: tuple[str, ...] = ()
    """Folders of tests/ that did not run, because the branch changes nothing that they are about."""
    tests_added: tuple[str, ...] = ()
    tests_changed: tuple[str, ...] = ()
    tests_removed: tuple[str, ...] = ()
    settings_changed: tuple[str, ...] = ()
    """Conftests, helpers of tests, and files with pytest's settings."""
    needs_word: tuple[str, ...] = ()
    """What the PM must agree to."""
    transcript: str = ""
    """Of a failed rehearsal."""
    at: float = 0.0
    """When it was made, seconds since the epoch."""
    seconds: float = 0.0

    @property
    def words(self) -> str:
        """In one line, for reports and commits."""
        if not self.passed:
            return self.why
        rehearsal = {True: "rehearsed", None: "not rehearsed"}.get(self.rehearsed, "not rehearsed")
        own = f", {self.own.passed} of its own passed" if self.own.passed else ""
        skipped = self.mains.skipped + self.own.skipped
        more = f", {skipped} skipped" if skipped else ""
        return f"{rehearsal}; {self.mains.passed} of main's tests passed{own}{more} ({self.seconds:.0f} s)"


def to_json(verdict: Verdict) -> bytes:
    return msgspec.json.format(msgspec.json.encode(verdict), indent=1) + b"\n"


def from_json(content: bytes) -> Verdict:
    """Raises ValueError."""
    return msgspec.json.decode(content, type=Verdict)


def judge(key: str, branch: str, commit: str, main: str, selection: Selection, findings: Findings) -> Verdict:
    """The verdict, without its time."""
    mains, own = findings.mains, findings.own
    failed = [id for id in mains.failed() if findings.main.outcomes.get(id) != FAILED]
    overruled = [id for id in failed if _file(id) in (*selection.changed, *selection.removed)]
    why = findings.outage or _why_not(selection, findings, [id for id in failed if id not in overruled])
    word = [*_lost(selection, findings), *_skipped(findings)]
    word += [f"{id} fails as main has it, and the branch changes or removes that test" for id in overruled]
    return Verdict(
        key=key,
        branch=branch,
        commit=commit,
        main=main,
        passed=not why,
        why=why,
        outage=bool(findings.outage),
        rehearsed=findings.rehearsed,
        mains=_counts(mains),
        own=_counts(own),
        failures=dict(list((mains.failures | own.failures).items())[:5]),
        fails_on_main=_some(id for id in mains.failed() if id not in failed),
        again=_some((*mains.again, *own.again)),
        files=_some(dict.fromkeys((*selection.mains, *selection.own)), MOST_FILES),
        left_out=selection.left_out,
        tests_added=_some(selection.added),
        tests_changed=_some(selection.changed),
        tests_removed=_some(selection.removed),
        settings_changed=_some(selection.settings),
        needs_word=_some(word),
        transcript=findings.transcript,
    )


def _why_not(selection: Selection, findings: Findings, failed: list[str]) -> str:
    mains, own = findings.mains, findings.own
    if findings.rehearsed is False:
        return f"it failed its rehearsal: {findings.rehearsal}"
    if not selection.mains and not selection.own:
        return "no tests: add some as tests/test_*.py; a version is examined with tests"
    if mains.trouble or own.trouble:
        return f"the tests did not come to their end: {mains.trouble or own.trouble}"
    # What main's own code cannot collect either says nothing against the branch.
    altered = (*selection.changed, *selection.removed)
    broken = [path for path in mains.broken if path not in findings.main.broken and path not in altered]
    # What is broken and no test file, such as a folder, counts for all.
    broken = [path for path in broken if _file(path) in selection.mains or not path.endswith(".py")]
    silent = (id for run in (mains, own) for id in run.collected if id not in run.outcomes)
    for found, what in (
        ([*broken, *own.broken], "cannot be collected"),
        ([*failed, *own.failed()], "failed"),
        ([*silent], "was collected and did not end"),
    ):
        if found:
            return f"{found[0]} {what}{f' (and {len(found) - 1} more)' if len(found) > 1 else ''}"
    if not _counts(mains).passed and not _counts(own).passed:
        return "no test passed: a version is examined with tests"
    return ""


def _lost(selection: Selection, findings: Findings) -> Iterator[str]:
    """Tests of main that the branch no longer has."""
    yield from selection.elsewhere
    yield from (f"{path} is removed" for path in selection.removed)
    now = dict.fromkeys(findings.own.collected)
    now |= dict.fromkeys(id for id in findings.mains.collected if _file(id) not in selection.own)
    lost = [*_missing(findings.main.collected, now), *_missing(findings.counted_there, findings.counted)]
    removed = tuple(f"{path}::" for path in selection.removed)
    yield from dict.fromkeys(each for each in lost if not each.startswith(removed))


def _missing(before: Iterable[str], now: Iterable[str]) -> Iterator[str]:
    counted = Counter(map(_function, now))
    for id, many in Counter(map(_function, before)).items():
        if not counted[id]:
            yield f"{id} is no longer collected"
        elif counted[id] < many:
            yield f"{id} is collected {counted[id]} times, {many} times on main"


def _skipped(findings: Findings) -> Iterator[str]:
    """Tests that are skipped, and are not skipped with main's own code."""
    for id, outcome in (findings.mains.outcomes | findings.own.outcomes).items():
        if outcome == SKIPPED and findings.main.outcomes.get(id) != SKIPPED:
            yield f"{id} is skipped"


def _counts(run: Run) -> Counts:
    ended = list(run.outcomes.values())
    return Counts(ended.count(PASSED) + len(run.again), ended.count(FAILED) - len(run.again), ended.count(SKIPPED))


def _file(id: str) -> str:
    return id.partition("::")[0]


_PARAMETERS = re.compile(r"\[.*\]\Z", re.DOTALL)


def _function(id: str) -> str:
    return _PARAMETERS.sub("", id)


def _some(names: Iterable[str], most: int = MOST_LISTED) -> tuple[str, ...]:
    shown = [cut(name, 200) for name in names]
    more = len(shown) - most
    return (*shown[:most], *([f"and {more} more"] if more > 0 else []))
