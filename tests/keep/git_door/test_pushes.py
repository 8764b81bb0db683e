"""What lands and what is refused. Every push is real; beside each refusal stands the same push in a form that
lands, and the PM's push by path, which always does."""

from __future__ import annotations

import os

import pytest

from infra.keep.repository import page
from infra.keep.supervision import main_branch
from infra.keep.watcher_file import Report
from infra.shared.people import AGENT, WATCHER
from infra.shared.repository.git import Git
from tests.keep.git_door.world import BLOB_BYTES, Refused, World, told_of

BIG = "x" * (BLOB_BYTES + 1)


def test_agent_pushes_main_and_branches(world: World) -> None:
    """In autonomy merge the agent moves main, and pushes branches. The mind has rules of its own (`test_mind`)."""
    work = world.agent.commit({"src/b.py": "b = 1\n"})
    for ref in ("main", "improve/reports-2", "rescue/2026-01-01T00-00-00.000Z"):
        world.agent.push(f"HEAD:refs/heads/{ref}")
        assert world.ref(f"refs/heads/{ref}") == work


def test_deleting_is_refused(world: World) -> None:
    """A branch stays when the agent deletes it, and goes when the PM does."""
    world.agent.push("main:old")

    said = world.agent.refused(":old")

    assert "remote: refused: refs/heads/old: nothing is deleted here" in said
    assert "remote: nothing of this push was taken" in said
    assert world.ref("refs/heads/old")
    world.pm.push(":old")
    assert world.ref("refs/heads/old") is None


@pytest.mark.parametrize("branch", ["main", "feature"])
def test_forcing_is_refused(world: World, branch: str) -> None:
    """No commit of a branch can be pushed away by the agent; on top of it is fine, and the PM may do it."""
    world.pm.commit({"src/pm.py": "1\n"})
    world.pm.push(f"HEAD:{branch}")
    world.agent.commit({"src/b.py": "1\n"})

    said = world.agent.refused(f"+HEAD:{branch}")

    assert f"refused: refs/heads/{branch}: the push would drop commits that are there" in said
    assert f"git pull --rebase origin {branch}" in said
    world.agent.git("pull", "--quiet", "--rebase", "origin", branch)
    world.agent.push(f"HEAD:{branch}")
    world.pm.commit({"src/pm.py": "2\n"})
    world.pm.push(f"+HEAD:{branch}")
    assert world.ref(f"refs/heads/{branch}") == world.pm.head


OTHER_NAMES = {
    "refs/minifram/good": "the keep's own records; push a branch instead",
    "refs/replace/0123456789abcdef0123456789abcdef01234567": "make a new commit instead",
    "refs/notes/commits": "a file, or a report in COMMS.md",
    "refs/tags/v1.0": "push it as refs/tags/snapshot/<name>",
    "refs/tags/snapshots/1": "push it as refs/tags/snapshot/<name>",
    "refs/for/main": "only branches (refs/heads/<name>) and snapshot tags",
    "refs/heads/minifram": "choose another name",
    "refs/heads/mind/notes": "choose another name",
    "refs/heads/rescue": "in the way of the rescue/… branches; choose another one",
    "refs/heads/-x": "must begin with a letter or digit",
    "refs/heads/über": "hold only letters, digits",
}


def test_other_names_are_refused(world: World) -> None:
    """Only branches and snapshot tags are taken, each other name with a word of its own."""
    said = world.agent.refused(*(f"HEAD:{ref}" for ref in OTHER_NAMES))

    for ref, words in OTHER_NAMES.items():
        assert words in told_of(said, ref)
        assert world.ref(ref) is None
    world.agent.push("HEAD:refs/heads/allowed-name_1.0", "HEAD:refs/tags/snapshot/1.0")
    world.pm.git("push", "--quiet", "origin", *(f"HEAD:{ref}" for ref in OTHER_NAMES))
    assert {world.ref(ref) for ref in OTHER_NAMES} == {world.pm.head}


FORGED = [
    {"GIT_COMMITTER_NAME": "PM", "GIT_COMMITTER_EMAIL": "pm@example.invalid"},
    {"GIT_AUTHOR_NAME": "minifram watcher", "GIT_AUTHOR_EMAIL": "agent@minifram.invalid"},
    {"GIT_COMMITTER_NAME": "PM"},
    {"GIT_COMMITTER_EMAIL": "Agent@minifram.invalid"},
    {"GIT_COMMITTER_NAME": "minifram watcher", "GIT_COMMITTER_EMAIL": "watcher@minifram.invalid"},
    *({"GIT_AUTHOR_EMAIL": address} for address in ("Watcher@minifram.invalid", f"{WATCHER.email} cafe")),
    *({"GIT_AUTHOR_EMAIL": address.format(WATCHER.email)} for address in ("x{}", "{}.org")),
]


def test_nobody_commits_in_anothers_name(world: World) -> None:
    """Who reads the history can believe it, also in the middle of a push."""
    tips, words = list[str](), list[str]()
    for forged in FORGED:
        made = ("commit-tree", "HEAD^{tree}", "-m", "a report\n\nReport: 0123456789abcdef")
        hidden = world.agent.git(*made, "-p", "HEAD", **forged)
        tips.append(world.agent.git("commit-tree", "HEAD^{tree}", "-p", hidden, "-m", "more"))
        whose = "committer" if "COMMITTER" in min(forged) else "author"
        words.append(f"the {whose} of commit {hidden[:12]} is ")

    said = world.agent.refused(*(f"{tip}:refs/heads/{number}" for number, tip in enumerate(tips)))

    for number, word in enumerate(words):
        assert word in told_of(said, f"refs/heads/{number}"), FORGED[number]
    for tip, word in [*zip(tips, words, strict=True)][:2]:
        assert word in world.agent.refused(f"{tip}:refs/heads/main")


@pytest.mark.parametrize("forged", FORGED[:2], ids=["committer", "author"])
def test_what_the_refusal_of_a_name_says_to_do_lands(world: World, forged: dict[str, str]) -> None:
    """A command for another committer, and words for who took the watcher's name."""
    world.agent.write({"src/b.py": "1\n"})
    world.agent.git("add", "--all")
    world.agent.git("commit", "--quiet", "-m", "x", **forged)
    world.agent.commit({"src/c.py": "1\n"})
    said = world.agent.refused("HEAD:refs/heads/main")
    if "committer" in said:
        assert "expected 'minifram agent <agent@minifram.invalid>'" in said
        command = said[said.index("git rebase") : said.index(" keeps its author")].split()
        world.agent.git(*command[1:])
    else:
        assert "only the watcher writes in its name" in said
        world.agent.git("rebase", "--quiet", "--exec", "git commit --quiet --amend --no-edit --reset-author", "HEAD~2")
    world.agent.push("HEAD:refs/heads/main")


def test_what_others_made_can_be_built_on(world: World) -> None:
    """A cherry-picked patch keeps its author; merged commits of the PM and the watcher are not judged again."""
    world.pm.git("switch", "--quiet", "--create", "patch")
    patch = world.pm.commit({"src/pm.py": "1\n"})
    world.pm.push("patch")
    world.agent.git("fetch", "--quiet")
    world.agent.git("cherry-pick", patch)
    assert world.agent.git("log", "-1", "--format=%an, %cn") == "PM, minifram agent"
    world.agent.push("HEAD:refs/heads/main")

    main_branch.report(world.places, Report(id="1", at="2026-01-01T00:00:00Z", title="all is well", text="It is."))
    theirs = world.ref("refs/heads/main")
    world.agent.commit({"src/d.py": "1\n"})
    world.agent.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")
    world.agent.git("merge", "--quiet", "--no-edit", "origin/patch")
    world.agent.push("HEAD:refs/heads/main")
    assert theirs
    assert {theirs, patch} <= set(world.agent.git("log", "--format=%H").split())


def test_only_the_watcher_says_what_it_has_told(world: World) -> None:
    """A trailer in somebody else's commit keeps no report from being told, and no rollback from being made."""
    ours = f"{WATCHER.email} {'c' * 40}"
    words = f"mine\n\nReport: 42\nSignal-File: 7:7\nReport: x\u2028{ours} 42\nReport: x\x0c{ours} 42"
    world.agent.commit({"src/b.py": "1\n"}, words)
    world.agent.push("HEAD:refs/heads/main")
    assert page.reported(Git(world.places.remote), WATCHER) == frozenset()
    before = world.ref("refs/heads/main")
    made = main_branch.roll_back(world.places, "main~1", "merge", "7:7")
    assert made not in (before, world.ref("refs/heads/main~1"))
    main_branch.report(world.places, Report(id="42", at="2026-01-01T00:00:00Z", title="all is well", text="It is."))
    assert page.reported(Git(world.places.remote), WATCHER) == {"42"}
    assert main_branch.roll_back(world.places, "main~1", "merge", "7:7") == made


def test_a_push_lands_whole_or_not_at_all(world: World) -> None:
    """One refused ref keeps back the others of the same push, also where git itself refuses it."""
    world.agent.commit({"src/b.py": "1\n"})
    for bad in ("refs/notes/x", "refs/minifram/x"):
        said = world.agent.refused("HEAD:refs/heads/fine", f"HEAD:{bad}")
        assert "nothing of this push was taken" in said
        assert world.ref("refs/heads/fine") is None
    world.agent.push("HEAD:refs/heads/fine", "HEAD:refs/heads/fine-too")
    assert world.ref("refs/heads/fine") == world.ref("refs/heads/fine-too") == world.agent.head


def test_every_refused_ref_is_named(world: World) -> None:
    """The agent learns all that is wrong with a push at once."""
    said = world.agent.refused("HEAD:refs/notes/x", "HEAD:refs/tags/v1", "HEAD:refs/heads/fine")

    assert "refused: refs/notes/x: " in said
    assert "refused: refs/tags/v1: " in said
    assert "refused: refs/heads/fine" not in said


def test_a_snapshot_stays_where_it_is(world: World) -> None:
    """Snapshot tags, plain or annotated, are made and never moved; the PM may move them."""
    world.agent.git("tag", "-a", "-m", "before the change", "snapshot/annotated")
    world.agent.push("snapshot/annotated", "HEAD:refs/tags/snapshot/plain")
    world.agent.commit({"src/b.py": "1\n"})

    said = world.agent.refused("+HEAD:refs/tags/snapshot/plain")

    assert "refused: refs/tags/snapshot/plain: a snapshot stays where it is; give the new one another name" in said
    world.agent.push("HEAD:refs/tags/snapshot/plain-2")
    world.pm.commit({"src/c.py": "1\n"})
    world.pm.push("+HEAD:refs/tags/snapshot/plain")
    assert world.ref("refs/tags/snapshot/plain") == world.pm.head


def test_a_snapshot_is_of_a_commit(world: World) -> None:
    """A tag of something that is not a commit would get round the rules for content."""
    blob = world.agent.git("hash-object", "-w", "--stdin", stdin=BIG)

    said = world.agent.refused(f"{blob}:refs/tags/snapshot/blob")

    assert "it would point to something that is not a commit; push a commit" in said
    world.agent.push("HEAD:refs/tags/snapshot/blob")
    world.pm.push(f"{world.pm.git('hash-object', '-w', '--stdin', stdin=BIG)}:refs/tags/snapshot/pm")


def test_a_rescue_branch_is_written_once(world: World) -> None:
    """What was saved stays as it was saved."""
    world.agent.push("HEAD:refs/heads/rescue/1")
    world.agent.commit({"src/b.py": "1\n"})

    said = world.agent.refused("HEAD:refs/heads/rescue/1")

    assert "a rescue branch is written once; push to a new name under rescue/" in said
    world.agent.push("HEAD:refs/heads/rescue/2")
    world.pm.commit({"src/b.py": "2\n"})
    world.pm.push("HEAD:refs/heads/rescue/1")


def test_logs_are_not_taken(world: World) -> None:
    """Nothing under logs/ at the top is committed; a directory of that name elsewhere is not a log."""
    world.agent.git("checkout", "--quiet", "-b", "work")
    bad = world.agent.commit({"logs/errors.log": "boom\n"})

    said = world.agent.refused("work")

    assert f"refused: refs/heads/work: commit {bad[:12]} adds or changes logs/, which is never committed" in said
    assert "git rm -r --cached logs" in said
    world.pm.commit({"logs/errors.log": "boom\n"})
    world.pm.push("HEAD:main")
    world.agent.git("reset", "--quiet", "--hard", "main")
    world.agent.commit({"src/logs/errors.log": "boom\n", "logs.txt": "boom\n"})
    world.agent.push("work")


def test_logs_are_not_taken_in_passing(world: World) -> None:
    """A commit in the middle of a push counts as its last one does."""
    bad = world.agent.commit({"logs/errors.log": "boom\n"})
    world.agent.remove("logs")

    said = world.agent.refused("main")

    assert f"commit {bad[:12]} adds or changes logs/" in said
    world.agent.git("reset", "--quiet", "--hard", "HEAD~2")
    world.agent.commit({"src/errors.log": "boom\n"})
    world.agent.remove("src/errors.log")
    world.agent.push("main")


def test_logs_as_a_link_are_not_taken(world: World) -> None:
    """A link named logs would send the runner's logs elsewhere."""
    (world.agent.path / "logs").symlink_to("/tmp")
    world.agent.commit({})

    assert "adds or changes logs/" in world.agent.refused("main")

    world.agent.git("mv", "logs", "src/link")
    world.agent.git("commit", "--quiet", "--amend", "-m", "elsewhere")
    world.agent.push("main")


def test_what_the_pm_has_under_logs_can_be_merged_and_removed(world: World) -> None:
    """Only what the agent's own commits bring in counts: merging the PM's main and cleaning up are neither."""
    world.agent.git("checkout", "--quiet", "-b", "work")
    world.agent.commit({"src/b.py": "1\n"})
    world.pm.commit({"logs/kept.txt": "by mistake\n", "large": BIG})
    world.pm.push("main")

    world.agent.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")
    world.agent.push("work")
    world.agent.remove("logs")
    world.agent.push("work")

    world.agent.commit({"logs/kept.txt": "again\n"})
    assert "adds or changes logs/" in world.agent.refused("work")


@pytest.mark.parametrize("name", [".git", ".GIT", "git~1"])
def test_a_tree_that_would_overwrite_git_is_not_taken(world: World, name: str) -> None:
    """A checkout of the PM's must not find a repository of the agent's making in it."""

    def commit(name: str) -> str:
        tree = world.agent.git("mktree", stdin=f"040000 tree {world.agent.git('rev-parse', 'HEAD:src')}\t{name}\n")
        return world.agent.git("commit-tree", tree, "-m", "x")

    assert "hasDotgit" in world.agent.refused(f"{commit(name)}:refs/heads/work")

    world.agent.push(f"{commit('dotgit')}:refs/heads/work")


def test_large_files_are_not_taken(world: World) -> None:
    """A new file over the limit is refused by name, size and limit, wherever in the push it is."""
    world.agent.commit({"data/big one.bin": BIG})
    world.agent.remove("data")

    said = world.agent.refused("main")

    assert (
        f"refused: refs/heads/main: file 'data/big one.bin' has {BLOB_BYTES + 1} bytes, over the limit of {BLOB_BYTES}"
    ) in said
    world.agent.git("reset", "--quiet", "--hard", "HEAD~2")
    world.agent.commit({"data/big one.bin": BIG[1:]})
    world.agent.push("main")
    world.pm.commit({"big": BIG})
    world.pm.push("HEAD:pm")


def test_large_files_that_are_there_already_can_be_used(world: World) -> None:
    """The limit is for new content: what the PM let in once may be copied, also when no branch has it any more."""
    world.pm.commit({"data.bin": BIG})
    world.pm.push("main")
    world.pm.remove("data.bin")
    world.pm.push("main")
    world.agent.git("pull", "--quiet")

    world.agent.commit({"copy.bin": BIG})
    world.agent.push("main")

    world.agent.commit({"other.bin": BIG + "y"})
    assert "file 'other.bin'" in world.agent.refused("main")


def test_the_limits_follow_the_settings(world: World) -> None:
    """What the PM sets holds from the next start on."""
    world.agent.commit({"big.bin": BIG})
    assert f"over the limit of {BLOB_BYTES}" in world.agent.refused("main")

    world.settings(blob_bytes=BLOB_BYTES * 2)

    world.agent.push("main")


@pytest.mark.parametrize("autonomy", ["propose", "frozen"])
def test_without_autonomy_only_the_pm_moves_main(world: World, autonomy: str) -> None:
    """Not even commits that are in the repository already, on a branch, are the agent's to put on main."""
    world.agent.commit({"src/b.py": "1\n"})
    world.agent.push("main:proposal")
    world.settings(autonomy)

    said = world.agent.refused("main")

    assert f"autonomy is '{autonomy}': only the PM moves main" in said
    assert ("push a branch and let the PM merge it" in said) == (autonomy == "propose")
    world.pm.git("fetch", "--quiet")
    world.pm.push("origin/proposal:main")
    assert world.main == world.agent.head


@pytest.mark.parametrize(
    ("autonomy", "lands"), [("merge", True), ("propose", True), ("frozen", False)], ids=["merge", "propose", "frozen"]
)
def test_frozen_takes_no_other_ref(world: World, autonomy: str, lands: bool) -> None:
    """Branches and snapshots land unless the agent is frozen."""
    refs = ("refs/heads/work", "refs/tags/snapshot/1")
    world.settings(autonomy)
    world.agent.commit({"src/b.py": "1\n"})
    if lands:
        world.agent.push(*(f"HEAD:{ref}" for ref in refs))
    else:
        said = world.agent.refused(*(f"HEAD:{ref}" for ref in refs))
        assert all("autonomy is 'frozen': only reports" in told_of(said, ref) for ref in refs)
    world.pm.commit({"src/b.py": "2\n"})
    world.pm.push(*(f"+HEAD:{ref}" for ref in refs))


def test_rescues_are_taken_always(world: World) -> None:
    """Whatever the agent may do, what is about to be lost can be saved; the rules for content hold there too."""
    fine, bad = world.agent.commits([{"src/b.py": "1\n"}, {"logs/b": "1\n"}])
    for autonomy in ("merge", "propose", "frozen"):
        world.settings(autonomy)
        world.agent.push(f"{fine}:refs/heads/rescue/{autonomy}")
        assert "adds or changes logs/" in world.agent.refused(f"{bad}:refs/heads/rescue/{autonomy}-2")


def test_main_is_the_pms_to_create(world: World) -> None:
    """A main of the agent's own making would hold directives and protected files of its own making."""
    world.pm.git("--git-dir", world.places.remote, "update-ref", "-d", "refs/heads/main")
    for autonomy in ("merge", "propose", "frozen"):
        world.settings(autonomy)
        assert "main is the PM's to create" in world.agent.refused("main")
    world.pm.push("main")


def test_a_push_of_many_refs_is_refused(world: World) -> None:
    """At most 50 refs in one push."""
    refs = [f"HEAD:refs/heads/b{number}" for number in range(51)]
    assert "the push changes over 50 refs; push only the branches you need" in world.agent.refused(*refs)
    assert world.ref("refs/heads/b0") is None
    world.agent.push(*refs[:50])
    assert world.ref("refs/heads/b49")


def test_more_refs_than_there_may_be_are_refused(world: World) -> None:
    """At most 2,000 branches and tags; what is there can be moved, and where the PM deletes one another has room."""
    wanted = "".join(f"create refs/{kind}/{number} HEAD\n" for kind in ("heads/b", "tags/t") for number in range(999))
    world.pm.git("--git-dir", world.places.remote, "update-ref", "--stdin", stdin=wanted)
    world.pm.git("--git-dir", world.places.remote, "update-ref", "refs/minifram/record", "HEAD")
    world.agent.commit({"src/b.py": "1\n"})
    world.agent.push("HEAD:refs/heads/last")  # main is one as well

    said = world.agent.refused("HEAD:refs/tags/snapshot/1")

    assert "would have 2001 branches and tags, over the limit of 2000; push to a branch that is there" in said
    assert "would have 2002" in world.agent.refused("HEAD:refs/heads/x", "HEAD:refs/heads/y", "HEAD:refs/heads/b/0")
    world.agent.push("HEAD:refs/heads/b/0", "HEAD:refs/heads/main")
    world.pm.git("--git-dir", world.places.remote, "update-ref", "-d", "refs/heads/b/1")
    world.agent.push("HEAD:refs/tags/snapshot/1")


def test_a_push_of_many_commits_is_refused(world: World) -> None:
    """At most 10,000 new commits on one ref; pieces of a long history land one after the other."""
    parent, lines = world.agent.head, []
    for number in range(10_001):
        lines.append(f"commit refs/heads/long\ncommitter {AGENT.name} <{AGENT.email}> {number} +0000\ndata 1\nx\n")
        lines.append(f"from {parent}\n\n" if number == 0 else "\n")
    world.agent.git("fast-import", "--quiet", stdin="".join(lines))

    said = world.agent.refused("long")

    assert "the push brings over 10000 commits at once; push it in smaller pieces" in said
    world.agent.push("long~1:refs/heads/long")
    world.agent.push("long")


@pytest.mark.parametrize("leaf", ["file", "nothing"])
def test_a_tree_without_end_is_refused(world: World, leaf: str) -> None:
    """Ten levels of one directory in itself ten times are ten objects for git, and ten thousand million paths."""
    page = blob = world.agent.git("rev-parse", "HEAD:COMMS.md")
    tree = world.agent.git("mktree", stdin=f"100644 blob {blob}\tf\n" if leaf == "file" else "")
    commits = []
    for _ in range(10):
        entries = "".join(f"040000 tree {tree}\t{letter}\n" for letter in "abcdefghij")
        tree = world.agent.git("mktree", stdin=entries)
        whole = world.agent.git("mktree", stdin=f"{entries}100644 blob {page}\tCOMMS.md\n")
        commits.append(world.agent.git("commit-tree", whole, "-p", "HEAD", "-m", "bomb"))

    said = world.agent.refused(f"{commits[-1]}:refs/heads/bomb")

    assert "what it brings takes git over 32 MiB to describe" in said
    world.agent.push(f"{commits[2]}:refs/heads/bomb")


def test_a_path_that_looks_like_gits_own_output_is_a_path(world: World) -> None:
    """Names with newlines, returns, colons and ids are read as names."""
    sha = world.agent.head
    names = (f"src/a\n{sha}", f"a\r{sha}", "a\rb", f":{sha} D", sha, "a\nlogs", f"{sha} missing")
    world.agent.commit({name: f"{number}\n" for number, name in enumerate(names)})
    world.agent.push("main")

    world.agent.commit({f"big\n{sha}": BIG})
    assert f"has {BLOB_BYTES + 1} bytes" in world.agent.refused("main")


def test_a_replaced_commit_is_seen_as_it_is(world: World) -> None:
    """A replacement (git-replace(1)) in the bare repository does not hide what is pushed."""
    bad = world.agent.commit({"logs/x": "1\n"})
    tip = world.agent.remove("logs")
    world.pm.git("--git-dir", world.places.remote, "update-ref", f"refs/replace/{tip}", str(world.main))
    assert f"commit {bad[:12]} adds or changes logs/" in world.agent.refused("main")
    world.agent.git("reset", "--quiet", "--hard", "HEAD~2")
    world.agent.commit({"src/x": "1\n"})
    world.agent.push("main")


def test_the_door_takes_a_clone_of_part_of_the_history(world: World) -> None:
    """A shallow clone pushes like any other."""
    world.pm.commit({"src/b.py": "1\n"})
    world.pm.push("main")
    world.agent.git("clone", "--quiet", "--depth=1", f"file://{world.places.remote}", "shallow")
    world.agent.path = world.agent.path / "shallow"
    world.agent.commit({"src/c.py": "1\n"})
    world.agent.push("main")
    world.agent.commit({"logs/x": "1\n"})
    assert "adds or changes logs/" in world.agent.refused("main")


def test_what_is_refused_leaves_nothing_behind(world: World) -> None:
    """The objects of a refused push do not stay in the repository."""
    world.agent.commit({"big.bin": BIG})
    blob = world.agent.git("rev-parse", "HEAD:big.bin")
    world.agent.refused("main")
    assert world.pm.run("--git-dir", world.places.remote, "cat-file", "-e", blob).returncode
    assert not [name for name in os.listdir(f"{world.places.remote}/objects") if "incoming" in name]
    with pytest.raises(Refused):
        world.agent.push("main")
