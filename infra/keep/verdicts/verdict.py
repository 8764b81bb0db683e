"""The verdict on one merged tree: what ran and how it ended, what the branch changed of the tests, and what of that
needs the PM's word. Pure.

The candidate's code runs in the process that runs the tests, and can forge how they end. So a verdict is evidence
against honest mistakes: it says what ran, and never that a version is safe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from infra.keep.verdicts.findings import FAILED, MOST_SHOWN, PASSED, SKIPPED, Findings, Run
from infra.keep.verdicts.paths import is_setting
from infra.keep.verdicts.selection import Selection
from infra.shared.text import cut

MOST_LISTED = 40
"""Names in one list of a verdict; the rest is counted."""
NAME_CHARS, MOST_CHARS = 200, 4000
"""Of a name, and of a text: the examiner's answer may be forged, and a verdict has to be kept."""


class Counts(msgspec.Struct, frozen=True):
    passed: int = 0
    failed: int = 0
    skipped: int = 0


class Verdict(msgspec.Struct, frozen=True):
    key: str
    """Of what the agent is made of in the merged tree (`trees.key_of`); empty: nothing of that changes."""
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
    files: int = 0
    """So many test files were chosen."""
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
        if not self.key:
            return "nothing that the agent is made of changes"
        rehearsal = "rehearsed" if self.rehearsed else "not rehearsed"
        own = f", {self.own.passed} of its own passed" if self.own.passed else ""
        skipped = self.mains.skipped + self.own.skipped
        more = f", {skipped} skipped" if skipped else ""
        return f"{rehearsal}, {self.mains.passed} of main's tests passed{own}{more} ({self.seconds:.0f} s)"

    @property
    def text(self) -> str:
        """What failed, as tests and rehearsal tell it."""
        return "\n\n".join(filter(None, [*(f"{id}:\n{text}" for id, text in self.failures.items()), self.transcript]))


def judge(key: str, branch: str, commit: str, main: str, selection: Selection, findings: Findings) -> Verdict:
    """The verdict, without its time."""
    mains, own = findings.mains, findings.own
    failures = mains.failures | own.failures
    failed = [id for id in mains.failed() if findings.main.outcomes.get(id) != FAILED]
    overruled = [
        f"{id} fails as main has it, and the branch changes or removes that test"
        for id in failed
        if _file(id) in selection.altered
    ]
    why = findings.outage or _why_not(selection, findings, failed)
    if findings.early and not findings.outage:
        why = f"{overruled[0] if overruled else why}: that is the PM's to decide, so nothing else was run"
    return Verdict(
        key=key,
        branch=branch,
        commit=commit,
        main=main,
        passed=not why,
        why=cut(why, MOST_CHARS),
        outage=bool(findings.outage),
        rehearsed=findings.rehearsed,
        mains=_counts(mains),
        own=_counts(own),
        failures={cut(id, NAME_CHARS): cut(text, MOST_CHARS) for id, text in list(failures.items())[:MOST_SHOWN]},
        fails_on_main=_some(id for id in mains.failed() if id not in failed),
        again=_some((*mains.again, *own.again)),
        files=len({*selection.mains, *selection.own}),
        needs_word=_some((*_lost(selection, findings), *_skipped(findings), *overruled)),
        transcript=cut(findings.transcript, MOST_CHARS),
    )


def _why_not(selection: Selection, findings: Findings, failed: list[str]) -> str:
    mains, own = findings.mains, findings.own
    if findings.rehearsed is False:
        return f"it failed its rehearsal: {findings.rehearsal}"
    if not selection.mains and not selection.own:
        return "no tests: add some as tests/cell/test_*.py; a version is examined with tests"
    if mains.trouble or own.trouble:
        return f"the tests did not come to their end: {mains.trouble or own.trouble}"
    # What main's own code cannot collect either says nothing against the branch.
    broken = [path for path in mains.broken if path not in findings.main.broken and path not in selection.altered]
    # What is broken and no test file, such as a folder, counts for all.
    broken = [path for path in broken if _file(path) in selection.mains or not path.endswith(".py")]
    silent = (id for run in (mains, own) for id in run.collected if id not in run.outcomes)
    for found, what in (
        ([*broken, *own.broken], "cannot be collected"),
        ([*(id for id in failed if _file(id) not in selection.altered), *own.failed()], "failed"),
        ([*silent], "was collected and did not end"),
    ):
        if found:
            return f"{found[0]} {what}{f' (and {len(found) - 1} more)' if len(found) > 1 else ''}"
    if not _counts(mains).passed and not _counts(own).passed:
        return "no test passed: a version is examined with tests"
    return ""


def _lost(selection: Selection, findings: Findings) -> Iterator[str]:
    """What of main's tests the branch has no longer, or may take from the versions after it."""
    yield from (f"{path} changes how tests are run" for path in selection.settings if is_setting(path))
    yield from (f"{path} is removed" for path in selection.removed)
    counted, there = (Counter(map(_function, each)) for each in (findings.counted, findings.counted_there))
    for id in there - counted:
        now = f"collected {counted[id]} times, {there[id]} times on main"
        yield f"{id} is {now if counted[id] else 'no longer collected'}"


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


def _function(id: str) -> str:
    """Without parameters, which may hold anything."""
    file, _, test = id.partition("::")
    return f"{file}::{test.partition('[')[0]}"


def _some(names: Iterable[str]) -> tuple[str, ...]:
    shown = [cut(name, NAME_CHARS) for name in names]
    more = len(shown) - MOST_LISTED
    return (*shown[:MOST_LISTED], *([f"and {more} more"] if more > 0 else []))
