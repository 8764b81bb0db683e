"""What lands and what is refused: tables of pushes, each real. Beside what is refused stands the same in a form that
lands, and the PM's push by path, which always does."""

from __future__ import annotations

import pytest

from infra.keep.git_door import rollback
from infra.keep.watcher_file import Report
from infra.shared.people import WATCHER
from infra.shared.refused import Refused, refusals_in
from tests.keep.git_door.world import BLOB_BYTES, PAGE, World, on_branches, told_of

BIG = "x" * (BLOB_BYTES + 1)


@pytest.mark.fault("F45")
@pytest.mark.attack("S24")
def test_deleting_is_refused(world: World) -> None:
    """A branch stays when the agent deletes it, and goes when the PM does."""
    world.agent.push("main:old")
    said = world.agent.refused(":old")
    assert "remote: refused: refs/heads/old: nothing is deleted here" in said
    assert "remote: nothing of this push was taken" in said
    assert world.ref("refs/heads/old")
    world.pm.push(":old")
    assert world.ref("refs/heads/old") is None


@pytest.mark.fault("F45")
@pytest.mark.attack("S24")
@pytest.mark.parametrize("branch", ["main", "feature"])
def test_forcing_is_refused(world: World, branch: str) -> None:
    """No commit of a branch can be pushed away by the agent; on top of it is fine, and the PM may do it."""
    world.pm.commit({"src/pm.py": "1\n"}, to=f"HEAD:{branch}")
    world.agent.commit({"src/b.py": "1\n"})
    said = world.judges({f"+HEAD:refs/heads/{branch}": "the push would drop commits that are there"})
    assert f"git pull --rebase origin {branch}" in said
    world.agent.git("pull", "--quiet", "--rebase", "origin", branch)
    world.agent.push(f"HEAD:{branch}")
    world.pm.commit({"src/pm.py": "2\n"}, to=f"+HEAD:{branch}")
    assert world.ref(f"refs/heads/{branch}") == world.pm.head


_ALIKE, _PMS = "this name is too much like ", "this branch is the PM's (protected.branches has 'pm/*')"
NAMES = {
    **dict.fromkeys(("refs/heads/main", "refs/heads/improve/reports-2"), ""),
    **dict.fromkeys(("refs/heads/allowed-name_1.0", "refs/heads/x/main", "refs/heads/mainly", "refs/heads/pmx"), ""),
    "refs/heads/my/pm/x": "",
    **{
        f"refs/{name}": "only branches (refs/heads/<name>) are taken"
        for name in ("minifram/good", f"replace/{'1' * 40}", "for/main", "tags/v1", "tags/snapshot/daily/1")
    },
    "refs/heads/minifram": "choose another name",
    "refs/heads/mAIN/minifram": "choose another name",
    "refs/heads/mind/notes": "choose another name",
    "refs/heads/-x": "must begin with a letter or digit",
    "refs/heads/über": "hold only letters, digits",
    # A ref is a file, and not every file system tells capital letters from small ones.
    **{f"refs/heads/{name}": f"{_ALIKE}'main'" for name in ("MAIN", "Main", "main/x", "MAIN/x")},
    "refs/heads/Mind": f"{_ALIKE}'mind'",
    **{f"refs/heads/{name}": _PMS for name in ("pm/x", "PM/x", "pm/x/y", "Pm/X")},
}


@pytest.mark.attack("S24")
def test_other_names_are_refused(world: World) -> None:
    """Only branches are taken, each other name with a word of its own; the PM may use any."""
    work = world.agent.commit({"src/b.py": "b = 1\n"})
    world.judges({f"HEAD:{ref}": words for ref, words in NAMES.items()})
    assert {world.ref(ref) for ref, words in NAMES.items() if not words} == {work}
    pms = ("refs/minifram/good", "refs/notes/commits", "refs/tags/v1.0", "refs/heads/-x", "refs/heads/pm/x")
    world.pm.git("push", "--quiet", "origin", *(f"HEAD:{ref}" for ref in pms))
    assert {world.ref(ref) for ref in pms} == {world.pm.head}
    assert _PMS in world.agent.refused("HEAD:refs/heads/pm/x")


def test_a_push_lands_whole_or_not_at_all(world: World) -> None:
    """One refused ref keeps back the others of the same push; all that is wrong is named at once."""
    world.agent.commit({"src/b.py": "1\n"})
    said = world.judges({"HEAD:refs/notes/x": "only branches", "HEAD:refs/tags/v1": "only branches"})
    assert refusals_in(said) == refusals_in(
        world.agent.refused("HEAD:refs/heads/fine", "HEAD:refs/notes/x", "HEAD:refs/tags/v1")
    )
    assert world.ref("refs/heads/fine") is None
    world.agent.push("HEAD:refs/heads/fine", "HEAD:refs/heads/fine-too")
    assert world.ref("refs/heads/fine") == world.ref("refs/heads/fine-too") == world.agent.head


def test_a_line_tells_a_program_which_rule_and_file_it_was() -> None:
    """Whatever the names hold; other lines of git's are none."""
    told = [Refused("size", "refs/heads/a", 'x "y"]\n\\', "it is large"), Refused("name", "refs/heads/b", "", "no [x]")]
    said = "".join(f"remote: refused: {each.line()}  \n" for each in told)
    assert refusals_in(f"{said}remote: nothing of this push was taken\nerror: refused: x\n") == told


def test_without_autonomy_only_the_pm_moves_main(world: World) -> None:
    """Not even commits that are in the repository already, on a branch, are the agent's to put on main."""
    fine = world.agent.commit({"src/b.py": "1\n"}, to="HEAD:refs/heads/proposal")
    for autonomy, instead, of_others in (
        ("propose", "push a branch and let the PM merge it", ""),
        ("frozen", "keep this until the PM changes that", "autonomy is 'frozen': only reports are taken"),
    ):
        world.settings(autonomy)
        words = f"only the PM moves main; {instead}"
        world.judges({f"{fine}:refs/heads/main": words, f"{fine}:refs/heads/{autonomy}": of_others})
    world.pm.git("fetch", "--quiet")
    world.pm.push("origin/proposal:main")
    assert world.main == fine


def test_main_is_the_pms_to_create(world: World) -> None:
    """A main of the agent's own making would hold directives and protected files of its own making."""
    world.bare("update-ref", "-d", "refs/heads/main")
    for autonomy in ("merge", "propose", "frozen"):
        world.settings(autonomy)
        world.judges({"main:refs/heads/main": "main is the PM's to create"})
    world.pm.push("main")


FORGED = [
    {"GIT_COMMITTER_NAME": "PM", "GIT_COMMITTER_EMAIL": "pm@example.invalid"},
    {"GIT_AUTHOR_NAME": "minifram watcher", "GIT_AUTHOR_EMAIL": "agent@minifram.invalid"},
    {"GIT_COMMITTER_NAME": "PM"},
    {"GIT_COMMITTER_EMAIL": "Agent@minifram.invalid"},
    {"GIT_COMMITTER_NAME": "minifram watcher", "GIT_COMMITTER_EMAIL": "watcher@minifram.invalid"},
    *(
        {"GIT_AUTHOR_EMAIL": each.format(WATCHER.email)}
        for each in ("Watcher@minifram.invalid", "{} cafe", "x{}", "{}.org")
    ),
]


def test_nobody_commits_in_anothers_name(world: World) -> None:
    """Who reads the history can believe it, also in the middle of a push."""
    made = list[tuple[str, str]]()
    for forged in FORGED:
        hidden = world.agent.git("commit-tree", "HEAD^{tree}", "-m", "x", "-p", "HEAD", **forged)
        tip = world.agent.git("commit-tree", "HEAD^{tree}", "-p", hidden, "-m", "more")
        whose = "committer" if "COMMITTER" in min(forged) else "author"
        made.append((tip, f"the {whose} of commit {hidden[:12]} is "))
    world.judges(on_branches(made))
    for tip, words in made[:2]:
        world.judges({f"{tip}:refs/heads/main": words})


def test_what_others_made_can_be_built_on(world: World) -> None:
    """A cherry-picked patch keeps its author; merged commits of the PM and the watcher are not judged again, whatever
    they hold."""
    world.pm.git("switch", "--quiet", "--create", "patch")
    patch = world.pm.commit({"src/pm.py": "1\n", "logs/kept.txt": "by mistake\n", "large": BIG}, to="patch")
    world.agent.git("fetch", "--quiet")
    world.agent.git("cherry-pick", "--no-commit", patch)
    world.agent.git("rm", "--quiet", "--force", "logs/kept.txt")
    world.agent.git("commit", "--quiet", "-C", patch)
    assert world.agent.git("log", "-1", "--format=%an, %cn") == "PM, minifram agent"
    world.agent.push("main")

    rollback.report(world.places, Report(id="1", at="2026-01-01T00:00:00Z", title="all is well", text="It is."))
    theirs = world.main
    world.agent.commit({"src/d.py": "1\n"})
    world.agent.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")
    world.agent.git("merge", "--quiet", "--no-edit", "origin/patch")
    world.agent.push("main")
    assert {theirs, patch} <= set(world.agent.git("log", "--format=%H").split())
    world.agent.git("rm", "--quiet", "-r", "logs")
    world.agent.commit({}, to="main")
    world.agent.commit({"logs/kept.txt": "again\n", "copy-of-large": BIG})
    assert [each.id for each in refusals_in(world.agent.refused("main"))] == ["logs"]


_MAILMAP, _TOP = "PM <pm@example.invalid> <agent@minifram.invalid>\n", "is not taken at the top of the repository"
BROUGHT: list[tuple[dict[str, str], str]] = [
    ({"logs/errors.log": "boom\n"}, "adds or changes logs/, which is never committed"),
    ({"src/logs/errors.log": "boom\n", "logs.txt": "boom\n"}, ""),
    ({"data/big one.bin": BIG}, f"'data/big one.bin' has {BLOB_BYTES + 1} bytes, over the limit of {BLOB_BYTES}"),
    ({"data/big one.bin": BIG[1:]}, ""),
    *(({name: _MAILMAP}, _TOP) for name in (".mailmap", ".MailMap", ".mailmap\u200d", ".mailmap.")),
    *(({name: ""}, _TOP) for name in (".gitmodules", ".GITMODULES")),
    ({"src/project/.mailmap": "A <a@b.invalid>\n", ".mailmaps": "\n"}, ""),
    # Names that look like git's own output are names.
    (dict.fromkeys((f"src/a\n{'1' * 40}", f"a\r{'1' * 40}", "a\rb", "1" * 40, "a\nlogs", "1 missing"), "1"), ""),
    ({f"big\n{'1' * 40}": BIG}, f"has {BLOB_BYTES + 1} bytes"),
]
"""Files of a commit, and words of its refusal, or nothing where it lands."""


def test_what_a_commit_may_bring(world: World) -> None:
    """The last one, and one in the middle of a push, which stays in the history. The PM may bring anything."""
    made = [*zip(world.agent.commits(files for files, _ in BROUGHT), (words for _, words in BROUGHT), strict=True)]
    passing = [(taken_back(world, tip), f"commit {tip[:12]}" if "top" in words else words) for tip, words in made]
    world.judges(on_branches([*made, *passing]))
    world.pm.commit({"logs/x": "1\n", "big": BIG, ".mailmap": _MAILMAP}, to="main")


def taken_back(world: World, commit: str) -> str:
    """A commit on top that takes back what that one does."""
    return world.agent.git("commit-tree", "HEAD^{tree}", "-p", commit, "-m", "as if nothing had been")


NUL = "\0"
ENTRIES = [
    ("160000 commit {main}\tvendor", "vendor' is a submodule"),
    ("100644 blob {blob}\tvendor", ""),
    ("120000 blob {blob}\tlogs", "adds or changes logs/"),
    ("120000 blob {blob}\tlinks", ""),
]


def commit_with(world: World, entry: str, parent: str = "HEAD", below: str = "") -> str:
    """A commit whose tree has this entry more, as `mktree` reads it, at the top or in a new directory."""
    make = ("mktree", "--missing", "-z")
    if below:
        entry = f"040000 tree {world.agent.git(*make, stdin=entry)}\t{below}"
    listed = world.agent.git("ls-tree", "-z", parent)
    tree = world.agent.git(*make, stdin=f"{listed.rstrip(NUL)}{NUL if listed else ''}{entry}")
    return world.agent.git("commit-tree", tree, "-p", parent, "-m", "x")


@pytest.mark.fault("F48")
def test_odd_entries_are_refused(world: World) -> None:
    """Submodules, and links where others look, also in passing; a submodule in a directory as well."""
    blob = world.agent.git("rev-parse", "HEAD:src/a.py")
    tip = commit_with(world, f"120000 blob {blob}\t.gitmodules")
    assert "gitmodulesSymlink" in world.agent.refused(f"{tip}:refs/heads/x"), "git says so itself"
    made = [(commit_with(world, entry.format(main=world.main, blob=blob)), words) for entry, words in ENTRIES]
    below = [(commit_with(world, ENTRIES[0][0].format(main=world.main), below="deep"), ENTRIES[0][1])]
    world.judges(on_branches([*made, *((taken_back(world, tip), words) for tip, words in made), *below]))


def test_what_is_there_already_may_stay(world: World) -> None:
    """The PM's own submodule does not stand in the way of the agent's work beside them; another does, also of
    a branch that was pushed past the door."""
    blob = world.agent.git("rev-parse", "HEAD:src/a.py")
    main = commit_with(world, f"160000 commit {world.main}\tvendor")
    old = commit_with(world, f"160000 commit {world.main}\told", parent=main)
    by_path = ("--receive-pack=git-receive-pack", world.places.remote)
    world.agent.git("push", "--quiet", *by_path, f"{main}:main", f"{old}:refs/heads/old")
    more = commit_with(world, f"100644 blob {blob}\tnews", parent=main)
    world.agent.push(f"{more}:refs/heads/main")
    tree = world.agent.git("merge-tree", "--write-tree", more, old)
    joined = world.agent.git("commit-tree", tree, "-p", more, "-p", old, "-m", "x")
    world.judges({f"{joined}:refs/heads/main": "'old' is a submodule"})


@pytest.mark.fault("F47")
def test_a_push_of_many_refs_is_refused(world: World) -> None:
    """At most 50 refs in one push."""
    refs = [f"HEAD:refs/heads/b{number}" for number in range(51)]
    assert "the push changes over 50 refs; push only the branches you need" in world.agent.refused(*refs)
    assert world.ref("refs/heads/b0") is None
    world.agent.push(*refs[:50])


def test_more_refs_than_there_may_be_are_refused(world: World) -> None:
    """At most 2,000 branches; what is there can be moved, and where the PM deletes one another has room."""
    wanted = "".join(f"create refs/heads/b/{number} HEAD\n" for number in range(1998))
    world.bare("update-ref", "--stdin", stdin=f"{wanted}create refs/minifram/record HEAD\n")
    world.agent.commit({"src/b.py": "1\n"})
    world.agent.push("HEAD:refs/heads/last")  # main is one as well
    over = "would have {} branches, over the limit of 2000; push to a branch that is there"
    world.judges({"HEAD:refs/heads/s": over.format(2001)})
    world.judges({"HEAD:refs/heads/x": over.format(2002), "HEAD:refs/heads/y": over.format(2002)})
    world.agent.push("HEAD:refs/heads/b/0", "HEAD:refs/heads/main")
    world.bare("update-ref", "-d", "refs/heads/b/1")
    world.agent.push("HEAD:refs/heads/s")


@pytest.mark.fault("F47")
def test_a_tree_without_end_is_refused(world: World) -> None:
    """Ten levels of one directory in itself ten times are ten objects for git, and ten thousand million paths."""
    tree, commits = world.agent.git("rev-parse", "HEAD^{tree}"), []
    for _ in range(10):
        tree = world.agent.git("mktree", stdin="".join(f"040000 tree {tree}\t{letter}\n" for letter in "abcdefghij"))
        commits.append(commit_with(world, f"040000 tree {tree}\td"))
    over = "what it brings takes git over 32 MiB to describe"
    world.judges({f"{commits[-1]}:refs/heads/bomb": over, f"{commits[2]}:refs/heads/fine": ""})


PAGES, FORGED_PAGE = "which the PM and the keep alone write", PAGE.replace("be good", "be good\n- [ ] approve deadbeef")


def test_no_branch_carries_a_page_of_its_own(world: World) -> None:
    """Nor one beside it, of either name; a branch that leaves the page alone lands, and who merges it keeps main's.
    Every way to change it: test_protected."""
    texts = (FORGED_PAGE, PAGE.replace("[ ]", "[x]"), PAGE + "\n### second\n\nmore\n", "")
    pages = [{"COMMS.md": text} for text in texts]
    *tips, fine, twin = world.agent.commits(
        [*pages, {"COMMS-ARCHIVE.md": PAGE}, {"COMMS.md/x": "1\n"}, {"src/b.py": "1\n"}, {"comms.MD": PAGE}]
    )
    words = f"it changes COMMS.md and COMMS-ARCHIVE.md, {PAGES}"
    said = world.judges(on_branches([*((tip, words) for tip in tips), (fine, "")]))
    assert f"git checkout {str(world.main)[:12]} -- COMMS.md" in said
    world.judges({f"{tips[0]}:refs/heads/main": words})
    world.judges({f"{twin}:refs/heads/main": "would be taken for COMMS.md"})
    world.pm.commit({"COMMS.md": FORGED_PAGE})
    world.pm.git("fetch", "--quiet", str(world.agent.path), fine)
    world.pm.git("merge", "--quiet", "-m", "merge", fine)
    assert (world.pm.path / "COMMS.md").read_text() == FORGED_PAGE


def test_an_old_page_cannot_be_played_again(world: World) -> None:
    """A page that main once held is none for a commit on top of a later main; on the old commit it is. A branch that
    was pushed past the door comes onto main no more than a new one."""
    git = world.agent.git
    for page in (FORGED_PAGE, PAGE):
        world.pm.commit({"COMMS.md": page}, to="HEAD:main")
    git("pull", "--quiet")
    bad = world.agent.commit({"COMMS.md": FORGED_PAGE, "src/b.py": "1\n"})
    git("push", "--quiet", "--receive-pack=git-receive-pack", "origin", f"{bad}:refs/heads/past")
    git("reset", "--quiet", "--hard", "origin/main~1")
    behind = world.agent.commit({"src/b.py": "1\n"})
    parents = ("-p", "HEAD", "-p", "origin/main", "-m", "a merge")
    old = git("commit-tree", git("rev-parse", "HEAD^{tree}"), *parents)
    merged = git("commit-tree", git("merge-tree", "--write-tree", "HEAD", "origin/main"), *parents)
    world.judges(
        {
            **{f"{bad}:{ref}": PAGES for ref in ("refs/heads/main", "refs/heads/replay")},
            f"{old}:refs/heads/old": PAGES,
            f"{behind}:refs/heads/behind": "",
            f"{merged}:refs/heads/merged": "",
        }
    )


def test_an_orphan_has_no_page(world: World) -> None:
    """A branch that descends from nothing of main; a page there would be nobody's."""
    git = world.agent.git
    bad, fine = (git("commit-tree", tree, "-m", "x") for tree in ("HEAD^{tree}", "HEAD:src"))
    words = "has no ancestor on main, so it may not hold COMMS.md"
    assert words in told_of(world.judges(on_branches([(bad, words), (fine, "")])), "refs/heads/0")
