"""What no ref may come to: odd entries, headers, tags and pages. A table of pushes, each real; beside a refusal stands
the same push in a form that lands."""

from __future__ import annotations

import pytest

from infra.keep.folding import folded
from infra.shared.people import AGENT
from infra.shared.refused import Refused, refusals_in
from tests.keep.git_door.raw import COMMIT, TREE, commit_of, id_of, pack, plain, push
from tests.keep.git_door.world import PAGE, World, told_of

FORGED = PAGE.replace("- [ ] be good", "- [ ] be good\n- [ ] approve deadbeef")
PAGES = "which the PM and the keep alone write"


def commit_with(world: World, *lines: str, parent: str = "HEAD", below: str = "") -> str:
    """A commit whose tree has these entries more, as `mktree` reads them, at the top or in a new directory."""
    if below:
        inner = world.agent.git("mktree", "--missing", "-z", stdin="".join(f"{line}\0" for line in lines))
        lines = (f"040000 tree {inner}\t{below}",)
    listed = world.agent.git("ls-tree", "-z", parent).split("\0")
    stdin = "".join(f"{line}\0" for line in [*filter(None, listed), *lines])
    tree = world.agent.git("mktree", "--missing", "-z", stdin=stdin)
    return world.agent.git("commit-tree", tree, "-p", parent, "-m", "x")


def blob(world: World) -> str:
    return world.agent.git("rev-parse", "HEAD:src/a.py")


def without_change(world: World, commit: str) -> str:
    """A commit on top that takes back what that one does."""
    return world.agent.git("commit-tree", "HEAD^{tree}", "-p", commit, "-m", "as if nothing had been")


def test_a_line_tells_a_program_which_rule_and_file_it_was() -> None:
    """Whatever the names hold; other lines of git's are none."""
    told = [Refused("size", "refs/heads/a", 'x "y"]\n\\', "it is large"), Refused("name", "refs/heads/b", "", "no [x]")]
    said = "".join(f"remote: refused: {each.line()}  \n" for each in told)
    assert refusals_in(f"{said}remote: nothing of this push was taken\nerror: refused: x\n") == told


SUBMODULE = ("160000 commit {main}\tvendor", "vendor' is a submodule")
TWINS = [
    ("100644 blob {blob}\tcase 100644 blob {blob}\tCase", "'Case' and 'case' are one name"),
    ("100644 blob {blob}\tstra\u00dfe 100644 blob {blob}\tSTRASSE", "are one name"),
    ("100644 blob {blob}\tx 100644 blob {blob}\tx\u200d", "are one name"),
]
LINKS = [
    ("120000 blob {blob}\t.gitattributes", "gitattributesSymlink"),
    ("120000 blob {blob}\t.GitIgnore", "gitignoreSymlink"),
    ("120000 blob {blob}\t.mailmap", "mailmapSymlink"),
]


def test_odd_entries_are_refused(world: World) -> None:
    """At the top and in a directory, each on a branch of its own; submodules also in the middle of a push."""
    for given, words in LINKS:  # git says so itself
        assert words in world.agent.refused(f"{commit_with(world, given.format(blob=blob(world)))}:refs/heads/x")
    odd, fine, words_of = list[str](), list[str](), list[str]()
    for entries, words in [SUBMODULE, *TWINS]:
        lines = entries.format(main=world.main, blob=blob(world)).replace(" 100644 blob", "\n100644 blob").split("\n")
        for below in ("", "deep"):
            odd.append(commit_with(world, *lines, below=below))
            words_of.append(words)
            fine.append(commit_with(world, f"100644 blob {blob(world)}\t{lines[0].partition(chr(9))[2]}", below=below))
    odd.append(without_change(world, odd[0]))
    words_of.append(SUBMODULE[1])
    said = world.agent.refused(*(f"{tip}:refs/heads/{number}" for number, tip in enumerate(odd)))
    for number, words in enumerate(words_of):
        told = told_of(said, f"refs/heads/{number}")
        assert words in told
        assert "git rebase" in told
    world.agent.push(*(f"{commit}:refs/heads/fine-{number}" for number, commit in enumerate(fine)))


def test_who_did_what_is_not_the_agents_to_rename(world: World) -> None:
    """`.mailmap` would show the agent's commits as the PM's; it is not taken, nor is `.gitmodules`."""
    names = (".mailmap", ".MailMap", ".gitmodules", ".GITMODULES", ".mailmap\u200d", ".mailmap.")
    made = world.agent.commits({name: "PM <pm@example.invalid> <agent@minifram.invalid>\n"} for name in names)
    tips = [*made, without_change(world, made[0])]
    said = world.agent.refused(*(f"{tip}:refs/heads/{number}" for number, tip in enumerate(tips)))
    for number in range(len(tips)):
        assert "is not taken at the top of the repository" in told_of(said, f"refs/heads/{number}")
    world.agent.commit({"src/project/.mailmap": "A <a@b.invalid>\n", ".mailmaps": "\n"})
    world.agent.push("main")


def test_what_is_there_already_may_stay(world: World) -> None:
    """The PM's own submodule and twins do not stand in the way of the agent's work beside them; another does, also of
    a branch that held it before there was this rule."""
    lines = (f"160000 commit {world.main}\tvendor", *(f"100644 blob {blob(world)}\t{name}" for name in ("A", "a")))
    main = commit_with(world, *lines)
    old = commit_with(world, f"160000 commit {world.main}\told", parent=main)
    by_path = ("--receive-pack=git-receive-pack", world.places.remote)
    world.agent.git("push", "--quiet", *by_path, f"{main}:main", f"{old}:refs/heads/old")
    more = commit_with(world, f"100644 blob {blob(world)}\tnews", parent=main)
    world.agent.push(f"{more}:refs/heads/main")
    tree = world.agent.git("merge-tree", "--write-tree", more, old)
    joined = world.agent.git("commit-tree", tree, "-p", more, "-p", old, "-m", "x")
    assert "'old' is a submodule" in world.agent.refused(f"{joined}:refs/heads/main")


@pytest.mark.parametrize("mode", [b"160777", b"120777", b"0120000", b"20000"])
def test_modes_that_git_rounds(world: World, mode: bytes) -> None:
    """Git reads a mode by its type alone, and takes a type that it does not know for a submodule."""
    tree = mode + b" .gitattributes\0" + bytes.fromhex(blob(world))
    content = commit_of(id_of("tree", tree), str(world.main))
    push(world, "refs/heads/work", id_of("commit", content), pack([plain(COMMIT, content), plain(TREE, tree)]))
    assert world.ref("refs/heads/work") is None


def test_a_tag_tells_who_made_it(world: World) -> None:
    """An annotated snapshot shows its tagger before the commit; the names of the keep's snapshots are the keep's."""
    forged = {"GIT_COMMITTER_NAME": "PM", "GIT_COMMITTER_EMAIL": "pm@example.invalid"}
    world.agent.git("tag", "--annotate", "-m", "good", "snapshot/1", **forged)
    assert "another tagger than minifram agent" in world.agent.refused("refs/tags/snapshot/1")
    world.agent.git("tag", "--force", "--annotate", "-m", "good", "snapshot/1")
    world.agent.git("tag", "--annotate", "-m", "of a tag", "snapshot/2", "snapshot/1")
    assert "something that is not a commit" in world.agent.refused("refs/tags/snapshot/2")
    world.agent.push("refs/tags/snapshot/1")
    for name in ("daily/2026-01-31T10-42-12Z", "weekly", "Monthly/1", "pre-modification/1", "post-failure/1"):
        assert "the keep alone makes them" in world.agent.refused(f"HEAD:refs/tags/snapshot/{name}")
    world.agent.push("HEAD:refs/tags/snapshot/my-daily/1")


US, PM = f"{AGENT.name} <{AGENT.email}> 1 +0000", "PM <pm@example.invalid> 1 +0000"
HEADERS = {
    f"committer {PM}\ncommitter {US}": "names more than one committer",
    f"committer {US}\ncommitter {PM}": "committer",
    f"committer {US}\nencoding UTF-7": "another encoding than UTF-8",
    f"committer {US}\nencoding ISO-8859-1": "another encoding than UTF-8",
}


@pytest.mark.parametrize("header", HEADERS)
def test_a_commit_has_one_committer_and_is_in_utf_8(world: World, header: str) -> None:
    """Some programs go by the first of two names, and not every git knows every encoding of one."""
    content = commit_of(world.agent.git("rev-parse", "HEAD^{tree}"), str(world.main))
    forged = content.replace(f"committer {US}".encode(), header.encode())
    assert forged != content
    said = push(world, "refs/heads/work", id_of("commit", forged), pack([plain(COMMIT, forged)]))
    assert HEADERS[header] in said
    content = content.replace(b"\n\n", b"\nencoding UTF-8\n\n", 1)
    said = push(world, "refs/heads/work", id_of("commit", content), pack([plain(COMMIT, content)]))
    assert "ok refs/heads/work" in said


def test_names_that_one_file_system_takes_for_one() -> None:
    """Letters' size and form, what has no width, dots and blanks at the end; other names stay apart."""
    same = [".mailmap", ".MAILMAP", ".mail\u200dmap", ".mailmap ", ".mailmap.", ".\uff4dailmap"]
    assert len({folded(name) for name in same}) == 1
    assert len({folded(name) for name in ["a", "\u00e1", "b", ".a", "...", " "]}) == 6


@pytest.mark.parametrize("page", [FORGED, PAGE.replace("[ ]", "[x]"), PAGE + "\n### second\n\nmore\n", ""])
def test_no_branch_carries_a_page_of_its_own(world: World, page: str) -> None:
    """Whatever is written there; one that leaves the page alone lands, and who merges it keeps main's."""
    world.agent.commit({"COMMS.md": page, "src/b.py": "1\n"})
    said = world.agent.refused("HEAD:refs/heads/work")
    assert f"it changes COMMS.md and COMMS-ARCHIVE.md, {PAGES}" in said
    assert f"git checkout {str(world.main)[:12]} -- COMMS.md" in said
    world.agent.git("checkout", str(world.main), "--", "COMMS.md")
    world.agent.git("commit", "--quiet", "--amend", "--no-edit")
    world.agent.push("HEAD:refs/heads/work")
    world.pm.commit({"COMMS.md": PAGE.replace("be good", "be better")})
    world.pm.git("fetch", "--quiet", "origin")
    world.pm.git("merge", "--quiet", "-m", "merge", "origin/work")
    assert (world.pm.path / "COMMS.md").read_text() == PAGE.replace("be good", "be better")
    assert (world.pm.path / "src/b.py").exists()


@pytest.mark.parametrize("how", ["removed", "link", "directory", "executable", "archive", "comms.MD"])
def test_no_kind_of_change(world: World, how: str) -> None:
    """Neither its mode nor its kind, an archive where main has none, nor a twin on main."""
    agent = world.agent
    if how == "executable":
        (agent.path / "COMMS.md").chmod(0o755)
    elif how in ("removed", "link", "directory"):
        agent.git("rm", "--quiet", "COMMS.md")
    if how == "link":
        (agent.path / "COMMS.md").symlink_to("src/a.py")
    files = {"directory": "COMMS.md/x", "archive": "COMMS-ARCHIVE.md", "comms.MD": how}
    agent.commit({files[how]: PAGE} if how in files else {})
    words = "would be taken for COMMS.md" if how == "comms.MD" else PAGES
    assert words in agent.refused("main")


def test_an_old_page_cannot_be_played_again(world: World) -> None:
    """A page that main once held is none for a commit on top of a later main; on the old commit it is. A branch that
    was pushed past the door comes onto main no more than a new one."""
    world.pm.commit({"COMMS.md": FORGED})
    world.pm.push("HEAD:main")
    old = str(world.main)
    world.pm.commit({"COMMS.md": PAGE})
    world.pm.push("HEAD:main")
    world.agent.git("fetch", "--quiet")
    world.agent.git("reset", "--quiet", "--hard", "origin/main")
    bad = world.agent.commit({"COMMS.md": FORGED, "src/b.py": "1\n"})
    world.agent.git("push", "--quiet", "--receive-pack=git-receive-pack", "origin", f"{bad}:refs/heads/past")
    for ref in ("main", "refs/heads/replay", "refs/tags/snapshot/1"):
        assert PAGES in world.agent.refused(f"HEAD:{ref}")
    world.agent.git("reset", "--quiet", "--hard", old)
    world.agent.commit({"src/b.py": "1\n"})
    world.agent.push("HEAD:refs/heads/behind")
    tree = world.agent.git("rev-parse", "HEAD^{tree}")
    new = world.agent.git("commit-tree", tree, "-p", "HEAD", "-p", "origin/main", "-m", "a merge with the old page")
    assert PAGES in world.agent.refused(f"{new}:refs/heads/replay")
    fixed = world.agent.git("merge-tree", "--write-tree", "HEAD", "origin/main")
    made = world.agent.git("commit-tree", fixed, "-p", "HEAD", "-p", "origin/main", "-m", "a merge")
    world.agent.push(f"{made}:refs/heads/merged")


def test_an_orphan_has_neither(world: World) -> None:
    """A branch that descends from nothing of main; a page there would be nobody's."""
    agent = world.agent
    agent.git("checkout", "--quiet", "--orphan", "alone")
    agent.commit({"notes.md": "1\n"})
    assert "has no ancestor on main, so it may not hold COMMS.md" in agent.refused("alone")
    agent.git("rm", "--quiet", "--cached", "COMMS.md")
    agent.git("commit", "--quiet", "--amend", "--no-edit")
    agent.push("alone")
