"""The verdict on one merged tree: what ran and how it ended, what the branch changed of the tests, and what of that
needs the PM's word. Pure.

The candidate's code runs in the process that runs the tests, and can forge how they end. So a verdict says what ran;
it never says that a version is safe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from infra.shared.text import cut
from infra.shared.verdicts.findings import FAILED, PASSED, SKIPPED, Findings, Run
from infra.shared.verdicts.selection import Selection

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
    """Nothing was found out, because something around the candidate failed. It may be examined again."""
    rehearsed: bool | None = None
    """None: the rehearsal is switched off (`rehearse: false`)."""
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
    """What the PM has to agree to."""
    transcript: str = ""
    """Of a rehearsal that was not lived through."""
    at: float = 0.0
    """When it was made, seconds since the epoch."""
    seconds: float = 0.0

    @property
    def opens_main(self) -> bool:
        """Whether the agent itself may move main to this tree."""
        return self.passed and not self.needs_word

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


def judge(key: str, branch: str, commit: str, main: str, selection: Selection, answer: Findings) -> Verdict:
    """The verdict, without its time."""
    failures = {**answer.mains.failures, **answer.own.failures}
    failed = [id for id in _failed(answer.mains) if answer.main.outcomes.get(id) != FAILED]
    too = [id for id in _failed(answer.mains) if id not in failed]
    overruled = [id for id in failed if _file(id) in (*selection.changed, *selection.removed)]
    why = answer.outage or _why_not(selection, answer, [id for id in failed if id not in overruled])
    word = [*_lost(selection, answer), *_skipped(answer)]
    word += [f"{id} fails as main has it, and the branch changes or removes that test" for id in overruled]
    return Verdict(
        key=key,
        branch=branch,
        commit=commit,
        main=main,
        passed=not why,
        why=why,
        outage=bool(answer.outage),
        rehearsed=answer.rehearsed,
        mains=_counts(answer.mains),
        own=_counts(answer.own),
        failures=dict(list(failures.items())[:5]),
        fails_on_main=_some(too),
        again=_some((*answer.mains.again, *answer.own.again)),
        files=_some(dict.fromkeys((*selection.mains, *selection.own)), MOST_FILES),
        left_out=selection.left_out,
        tests_added=_some(selection.added),
        tests_changed=_some(selection.changed),
        tests_removed=_some(selection.removed),
        settings_changed=_some(selection.settings),
        needs_word=_some(word),
        transcript=answer.transcript,
    )


def _why_not(selection: Selection, answer: Findings, failed: list[str]) -> str:
    if answer.rehearsed is False:
        return f"it did not live through its rehearsal: {answer.rehearsal}"
    if not selection.mains and not selection.own:
        return "there are no tests: a version is examined with tests, in tests/test_*.py"
    if answer.mains.trouble or answer.own.trouble:
        return f"the tests did not come to their end: {answer.mains.trouble or answer.own.trouble}"
    # What main's own code cannot collect either says nothing against the branch.
    broken = [path for path in answer.mains.broken if path not in answer.main.broken and _of(path, selection.mains)]
    broken = [path for path in broken if path not in (*selection.changed, *selection.removed)]
    broken += answer.own.broken
    if broken:
        return f"{broken[0]} cannot be collected{_more(broken)}"
    failed = [*failed, *_failed(answer.own)]
    if failed:
        return f"{failed[0]} failed{_more(failed)}"
    silent = [id for run in (answer.mains, answer.own) for id in run.collected if id not in run.outcomes]
    if silent:
        return f"{silent[0]} was collected and did not end{_more(silent)}"
    if not _counts(answer.mains).passed and not _counts(answer.own).passed:
        return "no test passed: a version is examined with tests"
    return ""


def _lost(selection: Selection, answer: Findings) -> Iterator[str]:
    """What main's tests hold, and the branch's no longer do."""
    for path in selection.removed:
        yield f"{path} is removed"
    now = dict.fromkeys(answer.own.collected)
    now |= dict.fromkeys(id for id in answer.mains.collected if _file(id) not in selection.own)
    lost = [*_missing(answer.main.collected, now), *_missing(answer.counted_there, answer.counted)]
    removed = tuple(f"{path}::" for path in selection.removed)
    yield from dict.fromkeys(each for each in lost if not each.startswith(removed))


def _missing(before: Iterable[str], now: Iterable[str]) -> Iterator[str]:
    counted = _count(now)
    for id, many in _count(before).items():
        if id not in counted:
            yield f"{id} is no longer collected"
        elif counted[id] < many:
            yield f"{id} is collected {counted[id]} times, {many} times on main"


def _skipped(answer: Findings) -> Iterator[str]:
    """What is skipped, and is not with main's own code."""
    for id, outcome in {**answer.mains.outcomes, **answer.own.outcomes}.items():
        if outcome == SKIPPED and answer.main.outcomes.get(id) != SKIPPED:
            yield f"{id} is skipped"


def _failed(run: Run) -> list[str]:
    return [id for id, outcome in run.outcomes.items() if outcome == FAILED and id not in run.again]


def _counts(run: Run) -> Counts:
    ended = list(run.outcomes.values())
    return Counts(ended.count(PASSED) + len(run.again), ended.count(FAILED) - len(run.again), ended.count(SKIPPED))


def _file(id: str) -> str:
    return id.partition("::")[0]


_PARAMETERS = re.compile(r"\[.*\]\Z", re.DOTALL)


def _function(id: str) -> str:
    return _PARAMETERS.sub("", id)


def _count(ids: Iterable[str]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for id in ids:
        counted[_function(id)] = counted.get(_function(id), 0) + 1
    return counted


def _of(path: str, files: tuple[str, ...]) -> bool:
    return _file(path) in files or not path.endswith(".py")


def _more(found: list[str]) -> str:
    return f" (and {len(found) - 1} more)" if len(found) > 1 else ""


def _some(names: Iterable[str], most: int = MOST_LISTED) -> tuple[str, ...]:
    shown = [cut(name, 200) for name in names]
    more = len(shown) - most
    return (*shown[:most], *([f"and {more} more"] if more > 0 else []))
