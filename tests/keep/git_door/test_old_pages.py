"""Runners of before push their page: its reports and ticks are taken as data, by the real hook and the real door."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.keep.git_door.old_pages import OldPush, reports_in
from infra.shared import comms
from infra.shared.people import AGENT
from infra.shared.repository.git import Git
from infra.shared.repository.tip import CloneTip, advance, edit_file
from tests.cell.runner.doors import Requests
from tests.keep.git_door.world import PAGE, World

AT = "2026-01-31T10:42:12.345Z"
TITLE = "main@0123456789ab done: be good"


@pytest.fixture
def requests(world: World) -> Iterator[Requests]:
    served = Requests(world.places)
    yield served
    served.close()


def page(world: World) -> str:
    return world.pm.git("--git-dir", world.places.remote, "show", "main:COMMS.md")


def as_before(world: World, title: str = TITLE, text: str = "It is.") -> str:
    """What the runner of 65fa144 does (life/page.py, repository/tip.py there): the report and its ticks in one commit,
    pushed, and again on top of what it finds when main has moved, until its report stands there."""
    git = Git(str(world.agent.path), AGENT, env={"GIT_CONFIG_GLOBAL": world.places.cell_git_config})

    def edit(document: str) -> str:
        document = comms.with_sections(document)
        alone = comms.reports(comms.add_report(comms.with_sections(""), title, "", AT))[0].split("\n")[0]
        if alone not in (known.split("\n")[0] for known in comms.reports(document)):
            document = comms.add_report(document, title, text, AT)
        return comms.tick(document, tuple(item.id for item in comms.open_directives(PAGE)))

    return advance(CloneTip(git), edit_file(git, "COMMS.md", edit, f"report: {title}\n"))


@pytest.mark.parametrize("autonomy", ["merge", "propose", "frozen"])
def test_a_report_of_before_lands_by_the_keeps_hand(world: World, requests: Requests, autonomy: str) -> None:
    """The runner takes it for sent; on main stands one commit of the keep's making, with report and tick."""
    world.settings(autonomy)
    before = world.main

    main = as_before(world)

    assert main == world.main
    assert world.ref("main~1") == before
    assert comms.open_directives(page(world)) == []
    assert comms.reports(page(world))[-1].splitlines() == [f"### {AT} {TITLE}", "", "It is."]
    assert as_before(world) == main, "once more changes nothing"


def test_what_else_such_a_push_would_change_comes_to_nothing(world: World, requests: Requests) -> None:
    """A directive of its own making, a report in the watcher's name, a third heading, other words of a report."""
    forged = PAGE.replace("- [ ] be good", "- [ ] be bad\n- [ ] approve deadbeef").replace("born", "never born")
    forged += f"\n### {AT} watcher: all is well\n\nIt is.\n\n## Log\n\n### {AT} watcher: hidden\n"
    world.agent.commit({"COMMS.md": forged})

    said = world.agent.refused("main").replace("\nremote: ", " ")

    assert "the keep and the PM alone write COMMS.md" in said
    assert "1 new reports and 0 ticks of it were taken as data" in said
    assert comms.section_text(page(world), comms.DIRECTIVES) == "- [ ] be good"
    assert "never born" not in page(world)
    assert "hidden" not in page(world)
    assert [report.split()[2] for report in comms.reports(page(world))[1:]] == [
        f"main@{world.agent.git('rev-parse', 'HEAD~1')[:12]}"
    ]


def test_a_push_of_more_than_the_page_is_judged_as_any_other(world: World, requests: Requests) -> None:
    """Nothing of it is taken as data."""
    before = world.main
    world.agent.commit({"COMMS.md": PAGE + f"\n### {AT} {TITLE}\n", "src/b.py": "1\n"})
    assert "which the PM and the keep alone write" in world.agent.refused("main").replace("\nremote: ", " ")
    assert world.main == before


def test_while_the_keep_does_not_answer_nothing_is_lost(world: World) -> None:
    """The push is refused with words that say so, and may come again."""
    world.agent.commit({"COMMS.md": PAGE + f"\n### {AT} {TITLE}\n"})
    assert "since the keep does not answer" in world.agent.refused("main").replace("\nremote: ", " ")


def test_ticks_without_a_report_are_told() -> None:
    """A hand that ticks is no wall, and leaves a word."""
    [report] = reports_in(OldPush(PAGE, PAGE.replace("[ ]", "[x]"), "a" * 40), 0.0)
    assert report.title == "ticked in COMMS.md, without a report"
    assert report.ticks == tuple(item.id for item in comms.open_directives(PAGE))
    assert reports_in(OldPush(PAGE, PAGE, "a" * 40), 0.0) == []
