"""A version on its own branch proves itself, merges if it may, and hands over to main: always."""

from __future__ import annotations

import os
from typing import Any

import pytest
from msgspec.structs import replace

from infra.cell.cell import Cell as RunnersCell
from infra.cell.cell import cell_of
from infra.cell.doors import Refused
from infra.cell.interruption import Interrupted, Interruption
from infra.cell.life import hop
from infra.cell.life.hop import MainMoved
from infra.keep.verdicts import refs, trees
from infra.keep.verdicts.verdict import Counts, Verdict
from infra.shared.door import DoorAway, Failure
from infra.shared.people import WATCHER
from infra.shared.repository.git import Git
from infra.shared.requests import Examination
from tests.cell.cell import Cell, limits, write
from tests.cell.doors import Examines
from tests.cell.loop.replies import Canned
from tests.cell.loop.waiting import wait_for

FIT = Examination("examined", True, "rehearsed, 3 of main's tests passed")


def examined(cell: Cell) -> None:
    """The keep's verdict on what merging the branch would make of main now."""
    git = Git(cell.places.remote, WATCHER)
    main, commit = git("rev-parse", "main"), git("rev-parse", "improve")
    key = trees.key_of(git, trees.merged(git, main, commit))
    refs.keep(git, Verdict(key, "improve", commit, main, True, "", False, True, Counts(1)))


def at_home(cell: Cell, branch: str, **boot: Any) -> RunnersCell:
    """The surroundings of a runner on a branch, in this process."""
    checkout = cell.places.checkout(branch)
    os.makedirs(f"{checkout}/logs", exist_ok=True)
    cell.open_git_door()
    made = cell_of(cell.boot(branch, **boot), checkout, Interruption())
    return made._replace(ask=Canned([]), pause=lambda seconds: None)


def change(cell: Cell, **files: str) -> Git:
    return cell.branch("improve", files or {"spec/notes.md": "better\n"})


# As the watcher starts it.


@pytest.mark.heavy
def test_a_version_that_the_keep_has_examined_leads_main_to_itself(cell: Cell) -> None:
    """It asks for its examination, merges with the verdict in the commit, reports, and asks for main."""
    clone = change(cell)
    before = cell.main()

    run = cell.start(cell.boot("improve"))
    wait_for(lambda: refs.requests(cell.bare), "an examination is asked for")
    assert refs.requests(cell.bare) == [("improve", clone("rev-parse", "HEAD"))]
    examined(cell)

    assert run.ended(60) == 0, run.log()
    assert run.words() == ["BOOTSTRAPPING", "SUCCESS"]
    assert cell.signal() == "main"
    assert cell.bare("show", "main:spec/notes.md") == "better"
    merge = cell.bare("rev-parse", "main~1")
    assert cell.bare("rev-parse", "main~1^1", "main~1^2").split() == [before, clone("rev-parse", "HEAD")]
    message = cell.bare("log", "-1", "--format=%B", merge)
    assert message.startswith("Merge improve: improve: a change")
    assert "Examined: rehearsed, 1 of main's tests passed" in message
    [report] = cell.reports()
    assert f"improve@{clone('rev-parse', 'HEAD')[:12]} merged into main as {merge[:12]}" in report
    assert "1 of main's tests passed" in report
    assert before[:12] in report
    assert cell.model.requests == [], "being examined costs nothing"


# In this process.


def test_a_version_that_did_not_pass_is_not_merged(cell: Cell) -> None:
    """The PM reads which test and how it failed, main is as it was, and main is asked for."""
    change(cell)
    before = cell.main()
    keep = Examines(Examination("examined", False, "test_this_version_is_fine failed", text="assert 'this' == 'that'"))

    assert hop.prove_and_hand_over(at_home(cell, "improve")._replace(keep=keep)) == 0

    assert cell.signal() == "main"
    assert cell.bare("rev-parse", "main~1") == before
    [report] = cell.reports()
    assert "not validated: test_this_version_is_fine failed" in report.split("\n")[0]
    assert "    assert 'this' == 'that'" in report


def test_a_mistake_while_it_is_examined_still_ends_in_main(cell: Cell, capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever this version cannot do, it lets main lead again, and says what happened."""
    change(cell)

    assert hop.prove_and_hand_over(at_home(cell, "improve")._replace(keep=Examines(ZeroDivisionError()))) == 0

    assert cell.signal() == "main"
    assert "not validated: ZeroDivisionError in the runner" in cell.reports()[0]
    assert "hop.crashed" in capfd.readouterr().err


def test_being_asked_to_end_ends_the_waiting(cell: Cell) -> None:
    """No signal, no report: the watcher has its own reasons."""
    change(cell)
    context = at_home(cell, "improve")
    asked = context._replace(keep=Examines(Examination("waiting")), pause=lambda seconds: context.interruption.ask())

    with pytest.raises(Interrupted):
        hop.prove_and_hand_over(asked)

    assert cell.signal() == ""
    assert cell.reports() == []


def test_a_verdict_is_waited_for(cell: Cell) -> None:
    """Doors that are not open, or busy, are asked again, to an end; a refusal and a verdict end it."""
    change(cell)
    context = at_home(cell, "improve", limits=limits(validation_seconds=10))
    keep = Examines(DoorAway("no door"), Examination("waiting"), Refused(Failure("refused", "moved")))
    found = hop.examination(context._replace(keep=keep), "0" * 40)
    assert (found, keep.answers) == (Examination("examined", words="moved"), [])

    times, keep = iter([0.0, 1.0, 9999.0]), Examines(DoorAway("the disk is full"))
    found = hop.examination(context._replace(keep=keep), "0" * 40, lambda: next(times))
    assert not found.passed
    assert "no verdict in time: the disk is full" in found.words


def test_what_may_not_be_merged_awaits_review(cell: Cell) -> None:
    """Validated, reported with the reason, and left to the PM: by the verdict, by autonomy, by the git door."""
    change(cell)
    before, hook = cell.main(), f"{cell.places.remote}/hooks/pre-receive"
    write(hook, "#!/bin/sh\necho 'main is closed on Fridays' >&2\nexit 1\n")
    os.chmod(hook, 0o755)
    for autonomy, needs, words in (
        ("merge", ("tests/a.py is removed",), "needs the PM's word ('minifram review improve'):\n\n- tests/a.py"),
        ("propose", (), "autonomy is propose, so the PM merges ('minifram review improve')"),
        ("frozen", (), "autonomy is frozen"),
        ("merge", (), "main is closed on Fridays"),
    ):
        home = at_home(cell, "improve", autonomy=autonomy)
        title, text = hop.settle(home, replace(FIT, needs_word=needs), before)
        assert title == f"validated: {FIT.words}"
        assert text.startswith("Awaiting review: ")
        assert words in text
    assert cell.main() == before


def test_what_is_not_on_origin_or_conflicts_with_main_is_not_validated(cell: Cell) -> None:
    """The keep says so, and what to do."""
    clone = change(cell)
    home = at_home(cell, "improve")
    cell.pm_changes({"spec/notes.md": "otherwise\n"}, "the same line")
    assert "conflict in spec/notes.md; merge main into the branch" in hop.prove(home)[0]
    clone("commit", "--quiet", "--allow-empty", "--message", "not pushed")
    title, text = hop.prove(home)
    assert title.startswith("not validated: ")
    assert "to it, then ask again" in text


def test_a_conflict_on_the_page_is_none(cell: Cell) -> None:
    """COMMS.md is main's, whatever the branch did to its copy; what main has gained meanwhile stays."""
    change(cell, **{"COMMS.md": "mine\n", "spec/notes.md": "better\n"})
    cell.pm_changes({"COMMS.md": "## Directives\n\n## Reports\n", "src/pm.md": "x\n"}, "the page")

    title, _ = hop.prove(at_home(cell, "improve")._replace(keep=Examines(FIT)))

    assert "merged into main" in title
    assert cell.page() == "## Directives\n\n## Reports\n"
    assert (cell.bare("show", "main:src/pm.md"), cell.bare("show", "main:spec/notes.md")) == ("x", "better")


def test_main_that_moves_while_judging_is_judged_again(cell: Cell) -> None:
    """Code that was not there when the tests ran must not be merged over unseen; a report may."""
    change(cell)
    context, main = at_home(cell, "improve"), cell.main()
    cell.tell("something")
    cell.pm_changes({"src/pm.md": "x\n"}, "a change of the PM's")
    with pytest.raises(MainMoved):
        hop.settle(context, FIT, main)

    main = cell.main()
    cell.tell("more")
    title, _ = hop.settle(context, FIT, main)

    assert "merged into main" in title
    assert cell.open() == ["something", "more"]


@pytest.mark.heavy
def test_what_main_already_holds_is_not_merged_again(cell: Cell) -> None:
    """It is validated, and there is nothing to do."""
    change(cell)
    cell.pm_merges("improve")
    context = at_home(cell, "improve")

    title, text = hop.prove(context)

    assert title.startswith("validated: ")
    assert "nothing to merge" in text


def test_a_git_that_fails_costs_a_round(cell: Cell) -> None:
    """A door that restarts is back by the next one; when it is not, the report says what was in the way."""
    change(cell)
    home, away = at_home(cell, "improve")._replace(keep=Examines(FIT)), f"{cell.places.remote}.away"
    os.rename(cell.places.remote, away)
    title, text = hop.prove(home)
    assert title == "not validated: 3 rounds were lost"
    assert "does not appear to be a git repository" in text

    title, _ = hop.prove(home._replace(pause=lambda seconds: os.rename(away, cell.places.remote)))
    assert title.startswith("merged into main")
