"""Progress by the keep's own books: real ledger lines and a real repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.keep.ledger.lines import Ledger, Opened, Settled
from infra.keep.limits import progress
from infra.shared.paths import Paths
from infra.shared.people import AGENT, WATCHER
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.tip import commit_tree
from tests.shared.repository.history import commit, plain


def _settled(call: str, tokens: int, error: str | None = None) -> Settled:
    return Settled(
        time="2026-01-31T10:00:00.000Z",
        day="2026-01-31",
        id=call,
        provider="scripted",
        model="m",
        input_tokens=tokens,
        output_tokens=20,
        cache_write_tokens=3,
        cache_read_tokens=1_000_000,
        usd=0.0,
        duration_ms=1,
        error=error,
    )


def _opened(call: str) -> Opened:
    return Opened(
        time="2026-01-31T10:00:00.000Z",
        day="2026-01-31",
        id=call,
        provider="scripted",
        model="m",
        worst_usd=1.0,
        worst_tokens=100,
    )


def test_calls_that_ended_are_counted_from_the_first_look_on(places: Paths) -> None:
    """Those before it, those under way, that failed or were cached are not; a torn line counts once whole."""
    ledger = Ledger(places.ledger)
    ledger.append(_settled("0", 5))
    first = progress.look(places, None)
    assert (first.calls, first.tokens) == (0, 0)
    ledger.append(_opened("1"))
    ledger.append(_settled("1", 100))
    second = progress.look(places, first)
    assert (second.calls, second.tokens) == (1, 123)
    ledger.append(_settled("2", 10, "timeout"))
    second, before = progress.look(places, second), second
    assert (second.calls, second.tokens) == (before.calls, before.tokens + 33)
    with open(places.ledger, "ab") as file:
        file.write(b'{"event":"settled","input_tokens":7')
    third = progress.look(places, second)
    assert third == second
    with open(places.ledger, "ab") as file:
        file.write(b"}\nno line\n\xff\n[]\n")
    last = progress.look(places, third)
    assert (last.calls, last.tokens) == (2, 163)
    assert progress.look(places, last) == last
    ledger.close()


def test_a_ledger_is_read_in_parts(places: Paths) -> None:
    """What is too much for one look is read at the next, and a line without an end is passed over."""
    first = progress.look(places, None)
    line = b'{"event":"settled","input_tokens":1,"pad":"%s"}\n' % (b"x" * 300_000)
    Path(places.ledger).write_bytes(line * 7 + b"y" * (progress.LEDGER_BYTES + 10))
    counts = []
    for _ in range(5):
        first = progress.look(places, first)
        counts.append(first.calls)
    assert counts[0] == 3
    assert counts[-1] == 7
    assert first.ledger_end >= len(line) * 7


def test_another_ledger_in_its_place_counts_from_its_end(places: Paths) -> None:
    """Nothing is counted twice."""
    Path(places.ledger).write_bytes(b'{"event":"settled","input_tokens":1}\n' * 10)
    first = progress.look(places, None)
    Path(places.ledger).write_bytes(b'{"event":"settled","input_tokens":1}\n')
    assert progress.look(places, first).calls == 0


@pytest.mark.parametrize(
    ("branch", "counts"), [("main", True), ("idea", True), ("mind", False), ("rescue/20260131T100000000Z", False)]
)
def test_news_on_a_branch_are_progress(places: Paths, branch: str, counts: bool) -> None:
    """On main or any branch of work; what is kept without anybody having done anything is none."""
    first = progress.look(places, None)
    assert progress.look(places, first).moves == 0
    git = Git(places.remote, AGENT)
    commit(git, {"file": "2"}, git("rev-parse", "main"), branch=branch)
    assert progress.look(places, first).moves == int(counts)


def test_what_the_watcher_adds_itself_is_no_progress(places: Paths) -> None:
    """Its report on a runaway would make it pass for no runaway; what an agent pushed before that report counts."""
    git = Git(places.remote, WATCHER)
    first = progress.look(places, None)
    _add(git)
    second = progress.look(places, first)
    assert second.moves == 0
    _add(Git(places.remote, AGENT))
    _add(git)
    assert progress.look(places, second).moves == 1


def _add(git: Git) -> None:
    tip = git("rev-parse", "refs/heads/main")
    new = commit_tree(git, git("rev-parse", "refs/heads/main^{tree}"), (tip,), "a report")
    git("update-ref", "refs/heads/main", new, tip)


def test_a_branch_that_was_deleted_is_no_progress(places: Paths) -> None:
    """Nothing new is in it."""
    commit(Git(places.remote, AGENT), {"file": "2"}, "refs/heads/main", branch="idea")
    first = progress.look(places, None)
    plain(places.remote, "branch", "-D", "idea")
    assert progress.look(places, first).moves == 0


def test_what_cannot_be_read_is_raised(places: Paths) -> None:
    """It is for the look to say that progress was not seen."""
    first = progress.look(places, None)
    os.mkdir(places.ledger)
    with pytest.raises(OSError, match="is not a regular file"):
        progress.look(places, first)
    os.rename(places.remote, f"{places.remote}.away")
    with pytest.raises(GitError):
        progress.look(places, None)
