"""What cannot be seen before git works: objects that make it wait, and content that is too much. Time, memory and
answers are bounded, the PM is told which branch it is, and can get rid of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from host.display import harmless
from host.repository import comms as talk
from host.repository import merge as decisions
from host.repository import open as bare
from host.repository import review
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.tip import BareTip
from tests.host.tampering import content
from tests.host.tampering.examination import VERB_SECONDS
from tests.host.tampering.site import Site
from tests.host.tampering.vector import VERBS


def test_an_object_that_makes_git_wait_holds_nobody_up_for_long(site: Site) -> None:
    """The quick look does not see it; every verb ends in time, says what was stopped, and leaves no git behind."""
    name = site.main()
    site.fifo(f"objects/{name[:2]}/{name[2:]}")
    assert site.git("log -1 main").status is None, "the control: plain git waits"
    began = time.monotonic()
    running = {verb: site.desk.spawn(*words) for verb, words in VERBS.items()}
    for verb, process in running.items():
        out, err = process.communicate(timeout=VERB_SECONDS)
        said = out if verb == "status" else err  # which shows what is known all the same
        assert process.returncode == (3 if verb == "status" else 1), (verb, err)
        assert "ran out of time" in said, (verb, said)
        assert verb == "status" or "minifram doctor" in said, (verb, said)
    assert time.monotonic() - began < VERB_SECONDS
    with pytest.raises(OSError, match="No such device or address"):  # nobody reads there any more
        os.open(site.fifos[0], os.O_WRONLY | os.O_NONBLOCK)
    found = site.desk.run("doctor")
    assert found.code == 8
    assert f"objects/{name[:2]}/{name[2:]} is a FIFO" in found.out


def opened(site: Site, seconds: float = 1.0) -> Git:
    return bare.open_repository(site.desk.home()).within(seconds)


@pytest.mark.parametrize("verb", ["tell", "reports", "review", "merge", "reject", "rollback"])
def test_what_is_planted_after_the_look_is_met_by_the_limits(site: Site, verb: str) -> None:
    """Between the look and git's own somebody may be quick: one deadline for all calls, and no second try."""
    git = opened(site)
    site.fifo("refs/heads/main")
    site.fifo("refs/heads/improve")
    acts: dict[str, Callable[[], object]] = {
        "tell": lambda: talk.add_directive(git, "do this"),
        "reports": lambda: talk.reports(git),
        "review": lambda: review.awaiting(git),
        "merge": lambda: decisions.merge_branch(git, site.desk.at_tip("improve@TIP"), True, ""),
        "reject": lambda: decisions.reject_branch(git, "improve", ""),
        "rollback": lambda: decisions.roll_back(git, "improve", ""),
    }
    began = time.monotonic()
    with pytest.raises(GitError, match="ran out of time"):
        acts[verb]()
    assert time.monotonic() - began < VERB_SECONDS


def test_a_ref_that_waits_when_it_is_moved_is_not_waited_for_twice(site: Site) -> None:
    """Whoever has no time to move a ref has none to look at it again."""
    git = opened(site, 2.0)
    tip = BareTip(git)
    seen, other = tip.look(), git("rev-parse", "other")
    site.fifo("refs/heads/main")
    with pytest.raises(GitError, match=r"update-ref .*ran out of time: stopped"):
        tip.move(seen, other)


def test_the_branch_that_is_too_much_is_named_and_the_others_are_shown(site: Site) -> None:
    """A list is not held up by one of its lines, and the PM can still reject that branch."""
    content.many_paths(site)
    listed = site.desk.run("review", "--json")
    found = {branch["name"]: branch for branch in listed.json["branches"]}
    assert found.keys() == {"improve", "other", "bomb"}
    why = found["bomb"]["unseen"]
    assert "ran out of time" in why or "to say" in why or "out of memory" in why
    assert (found["bomb"]["subject"], found["bomb"]["ahead"]) == ("look at me", 1)
    assert (found["improve"]["unseen"], found["improve"]["files"]) == ("", ["src/b.py"])
    one = site.desk.run("review", "bomb")
    assert one.code == 0
    assert "not all of it can be shown" in one.out
    assert "Changes (COMMS.md stays main's, and is left out)\n  not known" in one.out
    assert site.desk.run("merge", f"bomb@{site.git('rev-parse bomb').text.strip()}").code == 5, (
        "the keep has not examined it"
    )
    assert site.desk.run("reject", "bomb", "--because", "no").code == 0
    assert "bomb" not in site.desk.run("review").out


def test_main_that_is_too_much_can_be_rolled_back(site: Site) -> None:
    """The PM sees where the agent stands, and leads it out."""
    content.many_paths(site)
    bomb = site.git("rev-parse bomb").text.strip()
    site.git(f"update-ref refs/heads/main {bomb}")
    for words in (("status",), ("reports",), ("tell", "stop that")):
        assert site.desk.run(*words).code in (0, 3), words
    back = site.desk.run("rollback", f"{bomb}~1")
    assert back.code == 0
    assert "what changed cannot be listed" in back.out
    assert "bomb" not in site.git("ls-tree --name-only main").text.split()
    assert "stop that" in site.git("show main:COMMS.md").text


@pytest.mark.parametrize("lay", [content.zeros, content.copies])
def test_a_file_that_is_small_and_large_is_not_unpacked(site: Site, lay: object) -> None:
    """Its change is shown as that of a binary file, by a git that had little memory."""
    assert callable(lay)
    lay(site)
    shown = site.desk.run("review", "bomb")
    assert shown.code == 0
    assert f"Bin 0 -> {content.LARGE} bytes" in shown.out
    assert "Binary files /dev/null and b/bomb differ" in shown.out


def test_attributes_of_a_branch_hide_no_change(site: Site) -> None:
    """Neither those that it brings, nor those that main has from it already."""
    hiding = {".gitattributes": "* -diff binary linguist-generated\nsrc/** -diff\n", "src/evil.py": "evil\n"}
    site.desk.branch("hiding", hiding)
    assert "+evil" in site.desk.run("review", "hiding").out
    site.desk.branch("main", hiding, start="main")
    site.desk.branch("more", {"src/evil.py": "more evil\n"})
    assert "+more evil" in site.desk.run("review", "more").out


def test_a_damaged_branch_is_shown_as_far_as_it_goes(site: Site) -> None:
    """A commit whose tree is missing: the others are shown, and doctor says what is missing."""
    commit = site.loose("commit", b"tree " + b"1" * 40 + b"\n\nx\n")
    site.write("refs/heads/damaged", f"{commit}\n")
    listed = site.desk.run("review", "--json")
    found = {branch["name"]: branch for branch in listed.json["branches"]}
    assert found["damaged"]["unseen"]
    assert not found["improve"]["unseen"]
    doctor = site.desk.run("doctor")
    assert doctor.code == 8
    assert "git fsck" in doctor.out


def test_a_flood_of_findings_is_cut(site: Site) -> None:
    """Whoever plants thousands does not flood the PM's screen."""
    for number in range(500):
        (site.remote / f"refs/heads/x{number}").symlink_to("/etc/passwd")
    ended = site.desk.run("doctor")
    assert ended.out.count("symbolic link") <= 20
    assert "480 more of these" in ended.out
    refused = site.desk.run("status")
    assert refused.code == 5
    assert "and more" in refused.err
    assert len(refused.err) < 2000


def test_errors_of_git_are_shown_harmlessly(site: Site) -> None:
    """What git complains about can be the planter's words."""
    site.write("refs/heads/main", "x\x1b]0;owned\x07\n")
    for words in VERBS.values():
        ended = site.desk.run(*words)
        assert ended.code == 3 if words == ("status",) else ended.code not in (0, 3), "status shows what is known"
        assert ended.out + ended.err == harmless(ended.out + ended.err)
