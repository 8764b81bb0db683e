"""What lands and what is refused: tables of pushes, each real. Beside what is refused stands the same in a form that
lands, and the PM's push by path, which always does."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from infra.keep.supervision import main_branch
from infra.keep.watcher_file import Report
from infra.shared.people import AGENT, WATCHER
from infra.shared.refused import Refused, refusals_in
from tests.keep.git_door.raw import COMMIT, TREE, commit_of, id_of, pack, plain, push
from tests.keep.git_door.world import BLOB_BYTES, PAGE, World, on_branches, told_of

BIG = "x" * (BLOB_BYTES + 1)


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
    said = world.judges({f"+HEAD:refs/heads/{branch}": "the push would drop commits that are there"})
    assert f"git pull --rebase origin {branch}" in said
    world.agent.git("pull", "--quiet", "--rebase", "origin", branch)
    world.agent.push(f"HEAD:{branch}")
    world.pm.commit({"src/pm.py": "2\n"})
    world.pm.push(f"+HEAD:{branch}")
    assert world.ref(f"refs/heads/{branch}") == world.pm.head


_ALIKE, _PMS = "this name is too much like ", "this branch is the PM's (protected.branches has 'pm/*')"
NAMES = {
    **dict.fromkeys(
        ("refs/heads/main", "refs/heads/improve/reports-2", "refs/heads/rescue/2026-01-01T00-00-00.000Z"), ""
    ),
    **dict.fromkeys(("refs/heads/allowed-name_1.0", "refs/heads/x/main", "refs/heads/mainly", "refs/heads/pmx"), ""),
    **dict.fromkeys(("refs/tags/snapshot/1.0", "refs/tags/snapshot/my-daily/1", "refs/heads/my/pm/x"), ""),
    "refs/minifram/good": "the keep's own records; push a branch instead",
    "refs/replace/0123456789abcdef0123456789abcdef01234567": "make a new commit instead",
    "refs/notes/commits": "a file, or a report in COMMS.md",
    "refs/tags/v1.0": "push it as refs/tags/snapshot/<name>",
    "refs/tags/snapshots/1": "push it as refs/tags/snapshot/<name>",
    "refs/for/main": "only branches (refs/heads/<name>) and snapshot tags",
    "refs/heads/minifram": "choose another name",
    "refs/heads/mAIN/minifram": "choose another name",
    "refs/heads/mind/notes": "choose another name",
    "refs/heads/rescue": "in the way of the rescue/… branches; choose another one",
    "refs/heads/-x": "must begin with a letter or digit",
    "refs/heads/über": "hold only letters, digits",
    # A ref is a file, and not every file system tells capital letters from small ones.
    **{f"refs/heads/{name}": f"{_ALIKE}'main'" for name in ("MAIN", "Main", "main/x", "MAIN/x")},
    "refs/heads/Mind": f"{_ALIKE}'mind'",
    **{f"refs/heads/{name}": f"{_ALIKE}'rescue'" for name in ("RESCUE", "Rescue/1")},
    **{f"refs/heads/{name}": _PMS for name in ("pm/x", "PM/x", "pm/x/y", "Pm/X")},
    **{
        f"refs/tags/snapshot/{name}": "the keep alone makes them"
        for name in ("daily/2026-01-31T10-42-12Z", "weekly", "Monthly/1", "pre-modification/1", "post-failure/1")
    },
}


def test_other_names_are_refused(world: World) -> None:
    """Only branches and snapshot tags are taken, each other name with a word of its own; the PM may use any."""
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
    said = world.judges(
        {"HEAD:refs/notes/x": "notes are not taken", "HEAD:refs/tags/v1": "the only tags are snapshots"}
    )
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


def test_snapshots_and_rescues_stay_where_they_are(world: World) -> None:
    """Snapshot tags of commits, plain or annotated by the agent, and rescue branches are made and never moved; the PM
    may move them."""
    git = world.agent.git
    blob = git("hash-object", "-w", "--stdin", stdin=BIG)
    git("tag", "-a", "-m", "good", "forged", GIT_COMMITTER_NAME="PM", GIT_COMMITTER_EMAIL="pm@example.invalid")
    git("tag", "-a", "-m", "before the change", "fine")
    git("tag", "-a", "-m", "of a tag", "-m", "x\ntype commit\nx", "of-a-tag", "fine")
    made = ("refs/tags/snapshot/plain", "refs/heads/rescue/1")
    world.judges(
        {
            f"{blob}:refs/tags/snapshot/blob": "it would point to something that is not a commit; push a commit",
            "of-a-tag:refs/tags/snapshot/tag": "something that is not a commit",
            "forged:refs/tags/snapshot/forged": "another tagger than minifram agent",
            "fine:refs/tags/snapshot/annotated": "",
            **{f"HEAD:{ref}": "" for ref in made},
        }
    )
    world.agent.commit({"src/b.py": "1\n"})
    world.judges(
        {
            "+HEAD:refs/tags/snapshot/plain": "a snapshot stays where it is; give the new one another name",
            "HEAD:refs/heads/rescue/1": "a rescue branch is written once; push to a new name under rescue/",
            "HEAD:refs/tags/snapshot/plain-2": "",
            "HEAD:refs/heads/rescue/2": "",
        }
    )
    world.pm.commit({"src/c.py": "1\n"})
    world.pm.push(*(f"+HEAD:{ref}" for ref in made))
    assert {world.ref(ref) for ref in made} == {world.pm.head}


AUTONOMY = {
    "propose": {
        "refs/heads/main": "only the PM moves main; push a branch and let the PM merge it",
        "refs/heads/work": "",
        "refs/tags/snapshot/1": "",
        "refs/heads/rescue/1": "",
    },
    "frozen": {
        "refs/heads/main": "only the PM moves main; keep this until the PM changes that",
        "refs/heads/work": "autonomy is 'frozen': only reports are taken",
        "refs/tags/snapshot/1": "autonomy is 'frozen': only reports are taken",
        "refs/heads/rescue/1": "",
    },
}


@pytest.mark.parametrize("autonomy", AUTONOMY)
def test_without_autonomy_only_the_pm_moves_main(world: World, autonomy: str) -> None:
    """Not even commits that are in the repository already, on a branch, are the agent's to put on main. Whatever it may
    do, what is about to be lost can be saved."""
    fine, bad = world.agent.commits([{"src/b.py": "1\n"}, {"logs/b": "1\n"}])
    world.agent.push(f"{fine}:refs/heads/proposal")
    world.settings(autonomy)
    world.judges({f"{fine}:{ref}": words for ref, words in AUTONOMY[autonomy].items()})
    world.judges({f"{bad}:refs/heads/rescue/2": "adds or changes logs/"})
    world.pm.git("fetch", "--quiet")
    world.pm.push("origin/proposal:main")
    assert world.main == fine


def test_main_is_the_pms_to_create(world: World) -> None:
    """A main of the agent's own making would hold directives and protected files of its own making."""
    world.pm.git("--git-dir", world.places.remote, "update-ref", "-d", "refs/heads/main")
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
    *({"GIT_AUTHOR_EMAIL": address} for address in ("Watcher@minifram.invalid", f"{WATCHER.email} cafe")),
    *({"GIT_AUTHOR_EMAIL": address.format(WATCHER.email)} for address in ("x{}", "{}.org")),
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


@pytest.mark.parametrize("forged", FORGED[:2], ids=["committer", "author"])
def test_what_the_refusal_of_a_name_says_to_do_lands(world: World, forged: dict[str, str]) -> None:
    """A command for another committer, and words for who took the watcher's name."""
    world.agent.git("commit", "--quiet", "--allow-empty", "-m", "x", **forged)
    world.agent.commit({"src/c.py": "1\n"})
    said = world.agent.refused("main")
    if "committer" in said:
        assert "expected 'minifram agent <agent@minifram.invalid>'" in said
        world.agent.git(*said[said.index("git rebase") : said.index(" keeps its author")].split()[1:])
    else:
        assert "only the watcher writes in its name" in said
        amend = "git commit --quiet --amend --no-edit --allow-empty --reset-author"
        world.agent.git("rebase", "--quiet", "--exec", amend, "HEAD~2")
    world.agent.push("main")


def test_what_others_made_can_be_built_on(world: World) -> None:
    """A cherry-picked patch keeps its author; merged commits of the PM and the watcher are not judged again, whatever
    they hold."""
    world.pm.git("switch", "--quiet", "--create", "patch")
    patch = world.pm.commit({"src/pm.py": "1\n", "logs/kept.txt": "by mistake\n", "large": BIG})
    world.pm.push("patch")
    world.agent.git("fetch", "--quiet")
    world.agent.git("cherry-pick", "--no-commit", patch)
    world.agent.git("rm", "--quiet", "--force", "logs/kept.txt")
    world.agent.git("commit", "--quiet", "-C", patch)
    assert world.agent.git("log", "-1", "--format=%an, %cn") == "PM, minifram agent"
    world.agent.push("main")

    main_branch.report(world.places, Report(id="1", at="2026-01-01T00:00:00Z", title="all is well", text="It is."))
    theirs = world.main
    world.agent.commit({"src/d.py": "1\n"})
    world.agent.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")
    world.agent.git("merge", "--quiet", "--no-edit", "origin/patch")
    world.agent.push("main")
    assert {theirs, patch} <= set(world.agent.git("log", "--format=%H").split())
    world.agent.remove("logs")
    world.agent.push("main")
    world.agent.commit({"logs/kept.txt": "again\n", "copy-of-large": BIG})
    assert [each.id for each in refusals_in(world.agent.refused("main"))] == ["logs"]


_MAILMAP, _TOP = "PM <pm@example.invalid> <agent@minifram.invalid>\n", "is not taken at the top of the repository"
_LONG, _ONE = "is too long to be checked out everywhere", "are one name where capital letters count for nothing"
BROUGHT: list[tuple[Mapping[str, str | bytes], str]] = [
    ({"logs/errors.log": "boom\n"}, "adds or changes logs/, which is never committed"),
    ({"src/logs/errors.log": "boom\n", "logs.txt": "boom\n"}, ""),
    ({"data/big one.bin": BIG}, f"'data/big one.bin' has {BLOB_BYTES + 1} bytes, over the limit of {BLOB_BYTES}"),
    ({"data/big one.bin": BIG[1:]}, ""),
    *(({name: _MAILMAP}, _TOP) for name in (".mailmap", ".MailMap", ".mailmap\u200d", ".mailmap.")),
    *(({name: ""}, _TOP) for name in (".gitmodules", ".GITMODULES")),
    ({"src/project/.mailmap": "A <a@b.invalid>\n", ".mailmaps": "\n"}, ""),
    ({"/".join(["d" * 49] * 20) + "/x": "1\n"}, _LONG),
    ({"/".join(["d" * 49] * 19) + "/x": "1\n"}, ""),
    ({"é" * 128: "1\n"}, _LONG),
    ({"é" * 127: "1\n"}, ""),
    # Names that look like git's own output are names.
    (
        {
            f"src/a\n{'1' * 40}": "1",
            f"a\r{'1' * 40}": "1",
            "a\rb": "1",
            "1" * 40: "1",
            "a\nlogs": "1",
            "1 missing": "1",
        },
        "",
    ),
    ({f"big\n{'1' * 40}": BIG}, f"has {BLOB_BYTES + 1} bytes"),
]
"""Files of a commit, and words of its refusal, or nothing where it lands."""
AT_LAST: list[tuple[Mapping[str, str | bytes], str]] = [
    ({"case": "1\n", "Case": "1\n"}, f"'Case' and 'case' {_ONE}"),
    ({"deep/case": "1\n", "deep/Case": "1\n"}, f"'Case' and 'case' {_ONE}"),
    ({"stra\u00dfe": "1\n", "STRASSE": "1\n"}, _ONE),
    ({"x": "1\n", "x\u200d/y": "1\n"}, _ONE),
    ({"deep/case": "1\n", "Case": "1\n"}, ""),
]
"""The same, of what a branch comes to."""


def test_what_a_commit_may_bring(world: World) -> None:
    """The last one, and one in the middle of a push, which stays in the history. The PM may bring anything."""
    made = [*zip(world.agent.commits(files for files, _ in BROUGHT), (words for _, words in BROUGHT), strict=True)]
    passing = [(taken_back(world, tip), f"commit {tip[:12]}" if "top" in words else words) for tip, words in made]
    last = zip(world.agent.commits(files for files, _ in AT_LAST), (words for _, words in AT_LAST), strict=True)
    world.judges(on_branches([*made, *passing, *last]))
    world.pm.commit({"logs/x": "1\n", "big": BIG, ".mailmap": _MAILMAP})
    world.pm.push("main")


def taken_back(world: World, commit: str) -> str:
    """A commit on top that takes back what that one does."""
    return world.agent.git("commit-tree", "HEAD^{tree}", "-p", commit, "-m", "as if nothing had been")


ENTRIES = [
    ("160000 commit {main}\tvendor", "vendor' is a submodule"),
    ("100644 blob {blob}\tvendor", ""),
    ("120000 blob {blob}\tlogs", "adds or changes logs/"),
    ("120000 blob {blob}\tlinks", ""),
]
LINKS = (".gitattributes", ".GitIgnore", ".mailmap", ".gitmodules")


def commit_with(world: World, *lines: str, parent: str = "HEAD", below: str = "") -> str:
    """A commit whose tree has these entries more, as `mktree` reads them, at the top or in a new directory."""
    if below:
        inner = world.agent.git("mktree", "--missing", "-z", stdin="".join(f"{line}\0" for line in lines))
        lines = (f"040000 tree {inner}\t{below}",)
    listed = world.agent.git("ls-tree", "-z", parent).split("\0")
    stdin = "".join(f"{line}\0" for line in [*filter(None, listed), *lines])
    tree = world.agent.git("mktree", "--missing", "-z", stdin=stdin)
    return world.agent.git("commit-tree", tree, "-p", parent, "-m", "x")


def test_odd_entries_are_refused(world: World) -> None:
    """Submodules, and links where others look, also in passing; a submodule in a directory as well."""
    blob = world.agent.git("rev-parse", "HEAD:src/a.py")
    for name in LINKS:  # git says so itself
        tip = commit_with(world, f"120000 blob {blob}\t{name}")
        assert f"{name[1:].casefold()}Symlink" in world.agent.refused(f"{tip}:refs/heads/x")
    made = [(commit_with(world, entry.format(main=world.main, blob=blob)), words) for entry, words in ENTRIES]
    below = [(commit_with(world, ENTRIES[0][0].format(main=world.main), below="deep"), ENTRIES[0][1])]
    world.judges(on_branches([*made, *((taken_back(world, tip), words) for tip, words in made), *below]))


@pytest.mark.parametrize("mode", [b"160777", b"120777", b"0120000", b"20000"])
def test_modes_that_git_rounds(world: World, mode: bytes) -> None:
    """Git reads a mode by its type alone, and takes a type that it does not know for a submodule."""
    tree = mode + b" .gitattributes\0" + bytes.fromhex(world.agent.git("rev-parse", "HEAD:src/a.py"))
    content = commit_of(id_of("tree", tree), str(world.main))
    push(world, "refs/heads/work", id_of("commit", content), pack([plain(COMMIT, content), plain(TREE, tree)]))
    assert world.ref("refs/heads/work") is None


def test_what_is_there_already_may_stay(world: World) -> None:
    """The PM's own submodule and twins do not stand in the way of the agent's work beside them; another does, also of
    a branch that was pushed past the door."""
    blob = world.agent.git("rev-parse", "HEAD:src/a.py")
    lines = (f"160000 commit {world.main}\tvendor", *(f"100644 blob {blob}\t{name}" for name in ("A", "a")))
    main = commit_with(world, *lines)
    old = commit_with(world, f"160000 commit {world.main}\told", parent=main)
    by_path = ("--receive-pack=git-receive-pack", world.places.remote)
    world.agent.git("push", "--quiet", *by_path, f"{main}:main", f"{old}:refs/heads/old")
    more = commit_with(world, f"100644 blob {blob}\tnews", parent=main)
    world.agent.push(f"{more}:refs/heads/main")
    tree = world.agent.git("merge-tree", "--write-tree", more, old)
    joined = world.agent.git("commit-tree", tree, "-p", more, "-p", old, "-m", "x")
    world.judges({f"{joined}:refs/heads/main": "'old' is a submodule"})


US, PM = f"{AGENT.name} <{AGENT.email}> 1 +0000", "PM <pm@example.invalid> 1 +0000"
HEADERS = {
    f"committer {PM}\ncommitter {US}": "names more than one committer",
    f"committer {US}\ncommitter {PM}": "committer",
    f"committer {US}\nencoding UTF-7": "another encoding than UTF-8",
    f"committer {US}\nencoding ISO-8859-1": "another encoding than UTF-8",
    f"committer {US}\nencoding UTF-8": "ok refs/heads/work",
}


def test_a_commit_has_one_committer_and_is_in_utf_8(world: World) -> None:
    """Some programs go by the first of two names, and not every git knows every encoding of one."""
    content = commit_of(world.agent.git("rev-parse", "HEAD^{tree}"), str(world.main))
    for header, words in HEADERS.items():
        forged = content.replace(f"committer {US}".encode(), header.encode())
        assert words in push(world, "refs/heads/work", id_of("commit", forged), pack([plain(COMMIT, forged)]))


def test_the_limit_of_a_file_follows_the_settings(world: World) -> None:
    """What the PM sets holds from the next start on."""
    world.agent.commit({"big.bin": BIG})
    world.judges({"HEAD:refs/heads/main": f"over the limit of {BLOB_BYTES}"})
    world.settings(blob_bytes=BLOB_BYTES * 2)
    world.agent.push("main")


def test_a_push_of_many_refs_is_refused(world: World) -> None:
    """At most 50 refs in one push."""
    refs = [f"HEAD:refs/heads/b{number}" for number in range(51)]
    assert "the push changes over 50 refs; push only the branches you need" in world.agent.refused(*refs)
    assert world.ref("refs/heads/b0") is None
    world.agent.push(*refs[:50])


def test_more_refs_than_there_may_be_are_refused(world: World) -> None:
    """At most 2,000 branches and tags; what is there can be moved, and where the PM deletes one another has room."""
    pms = ("--git-dir", world.places.remote, "update-ref")
    wanted = "".join(f"create refs/{kind}/{number} HEAD\n" for kind in ("heads/b", "tags/t") for number in range(999))
    world.pm.git(*pms, "--stdin", stdin=f"{wanted}create refs/minifram/record HEAD\n")
    world.agent.commit({"src/b.py": "1\n"})
    world.agent.push("HEAD:refs/heads/last")  # main is one as well
    over = "would have {} branches and tags, over the limit of 2000; push to a branch that is there"
    world.judges({"HEAD:refs/tags/snapshot/1": over.format(2001)})
    world.judges({"HEAD:refs/heads/x": over.format(2002), "HEAD:refs/heads/y": over.format(2002)})
    world.agent.push("HEAD:refs/heads/b/0", "HEAD:refs/heads/main")
    world.pm.git(*pms, "-d", "refs/heads/b/1")
    world.agent.push("HEAD:refs/tags/snapshot/1")


def test_a_push_of_many_commits_is_refused(world: World) -> None:
    """At most 10,000 new commits on one ref; pieces of a long history land one after the other."""
    lines = [f"from {world.agent.head}\n\n", *["\n"] * 10_000]
    made = f"commit refs/heads/long\ncommitter {AGENT.name} <{AGENT.email}> 1 +0000\ndata 1\nx\n"
    world.agent.git("fast-import", "--quiet", stdin="".join(f"{made}{line}" for line in lines))
    world.judges({"long:refs/heads/long": "the push brings over 10000 commits at once; push it in smaller pieces"})
    world.agent.push("long~1:refs/heads/long")
    world.agent.push("long")


@pytest.mark.parametrize("leaf", ["file", "nothing"])
def test_a_tree_without_end_is_refused(world: World, leaf: str) -> None:
    """Ten levels of one directory in itself ten times are ten objects for git, and ten thousand million paths."""
    blob = world.agent.git("rev-parse", "HEAD:COMMS.md")
    tree = world.agent.git("mktree", stdin=f"100644 blob {blob}\tf\n" if leaf == "file" else "")
    commits = []
    for _ in range(10):
        tree = world.agent.git("mktree", stdin="".join(f"040000 tree {tree}\t{letter}\n" for letter in "abcdefghij"))
        commits.append(commit_with(world, f"040000 tree {tree}\td"))
    world.judges(
        {
            f"{commits[-1]}:refs/heads/bomb": "what it brings takes git over 32 MiB to describe",
            f"{commits[2]}:refs/heads/fine": "",
        }
    )


def test_what_is_refused_leaves_nothing_behind(world: World) -> None:
    """The objects of a refused push do not stay in the repository."""
    world.agent.commit({"big.bin": BIG})
    blob = world.agent.git("rev-parse", "HEAD:big.bin")
    world.agent.refused("main")
    assert world.pm.run("--git-dir", world.places.remote, "cat-file", "-e", blob).returncode
    assert not [name for name in os.listdir(f"{world.places.remote}/objects") if "incoming" in name]
    world.agent.refused("main")


PAGES, FORGED_PAGE = "which the PM and the keep alone write", PAGE.replace("be good", "be good\n- [ ] approve deadbeef")


def test_no_branch_carries_a_page_of_its_own(world: World) -> None:
    """Whatever is done to it; one that leaves the page alone lands, and who merges it keeps main's."""
    git = world.agent.git
    page, src = (git("rev-parse", f"HEAD:{path}") for path in ("COMMS.md", "src"))
    texts = (FORGED_PAGE, PAGE.replace("[ ]", "[x]"), PAGE + "\n### second\n\nmore\n", "")
    blobs = [git("hash-object", "-w", "--stdin", stdin=text) for text in texts]
    entries = ["", *(f"100644 blob {blob}" for blob in blobs), f"100755 blob {page}", f"120000 blob {page}"]
    listed = git("ls-tree", "HEAD", "src")
    trees = [f"{entry}\tCOMMS.md\n" if entry else "" for entry in [*entries, f"040000 tree {src}"]]
    trees.append(f"100644 blob {page}\tCOMMS.md\n100644 blob {page}\tCOMMS-ARCHIVE.md\n")
    tips = [git("commit-tree", git("mktree", stdin=f"{listed}\n{each}"), "-p", "HEAD", "-m", "x") for each in trees]
    (fine,) = world.agent.commits([{"src/b.py": "1\n"}])
    words = f"it changes COMMS.md and COMMS-ARCHIVE.md, {PAGES}"
    said = world.judges(on_branches([*((tip, words) for tip in tips), (fine, "")]))
    assert f"git checkout {str(world.main)[:12]} -- COMMS.md" in said
    for tip in tips:
        world.judges({f"{tip}:refs/heads/main": words})
    (twin,) = world.agent.commits([{"comms.MD": PAGE}])
    world.judges({f"{twin}:refs/heads/main": "would be taken for COMMS.md"})
    world.pm.commit({"COMMS.md": FORGED_PAGE})
    world.pm.git("fetch", "--quiet", "origin")
    world.pm.git("merge", "--quiet", "-m", "merge", fine)
    assert (world.pm.path / "COMMS.md").read_text() == FORGED_PAGE


def test_an_old_page_cannot_be_played_again(world: World) -> None:
    """A page that main once held is none for a commit on top of a later main; on the old commit it is. A branch that
    was pushed past the door comes onto main no more than a new one."""
    git = world.agent.git
    for page in (FORGED_PAGE, PAGE):
        world.pm.commit({"COMMS.md": page})
        world.pm.push("HEAD:main")
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
            **{f"{bad}:{ref}": PAGES for ref in ("refs/heads/main", "refs/heads/replay", "refs/tags/snapshot/1")},
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
