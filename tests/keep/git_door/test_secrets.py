"""No push carries a secret: not in a file, a message or a name, not in passing, and whoever reads the refusal does
not learn it. Every push is real; beside each refusal stands one that lands."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from infra.keep.git_door.report import report
from infra.keep.known_secrets import read_known
from infra.shared.comms import add_directive, directives, open_directives, reports
from infra.shared.requests import Report
from tests.keep.git_door.test_bypasses import BLOB, COMMIT, TREE, commit_of, id_of, pack, plain, push
from tests.keep.git_door.world import PAGE, World, on_branches, told_of
from tests.shared.test_secret_shapes import BASE64URL, MAKERS, some

CHANCE = random.Random(3)
KEY = MAKERS["Anthropic"](CHANCE)
KNOWN = f"of-the-pm-{some(CHANCE, BASE64URL, 8)}"
AN_ANTHROPIC_KEY = "holds what looks like a key of Anthropic"


def refused(world: World, wanted: Mapping[str, str]) -> str:
    """`World.judges`, and nothing that was said is secret; the agent's own git says its own ref names."""
    said = "\n".join(line for line in world.judges(wanted).splitlines() if line.startswith("remote:"))
    assert KEY not in said
    assert KEY[20:60] not in said
    assert KNOWN not in said
    return said


def test_a_key_in_a_file_is_refused_by_kind_and_place(world: World) -> None:
    """The refusal names commit, file and line, and what to do. Each kind on a branch of its own, in one push."""
    keys = {f"refs/heads/{number}": maker(CHANCE) for number, maker in enumerate(MAKERS.values())}
    text = "a = 1\n\nKEY = '''{}'''\n"
    made = world.agent.commits({"src/deep/config.py": text.format(key)} for key in (*keys.values(), "your-key-here"))
    wanted = {f"{tip}:{ref}": f"commit {tip[:12]} holds what looks like " for tip, ref in zip(made, keys, strict=False)}
    said = refused(world, {**wanted, f"{made[-1]}:refs/heads/fine": ""})
    for (ref, key), kind in zip(keys.items(), MAKERS, strict=True):
        assert "in 'src/deep/config.py', line 3; take it out of every commit of this push" in told_of(said, ref), kind
        assert key not in said


@pytest.mark.attack("S15")
def test_a_key_of_the_keeps_is_refused_whatever_it_looks_like(world: World) -> None:
    """The exact value, from the file that holds it when the push is judged."""
    texts = (KNOWN, f"x{KNOWN}x", f"x{KNOWN[:-1]}")
    before, bad, fine = world.agent.commits({"src/b.py": f"# {text}\n"} for text in texts)
    world.agent.push(f"{before}:refs/heads/before")
    world.secret(f"{KNOWN}\n")
    words = "holds a secret of the PM's in 'src/b.py', line 1"
    refused(world, {f"{bad}:refs/heads/bad": words, f"{fine}:refs/heads/fine": ""})


def test_a_key_in_passing_is_refused(world: World) -> None:
    """A later commit of the same push that takes it out again leaves it in the history."""
    bad = world.agent.commit({"src/a.py": f"KEY = '{KEY}'\n"})
    world.agent.commit({"src/a.py": "KEY = ''\n"})
    words = f"commit {bad[:12]} {AN_ANTHROPIC_KEY} in 'src/a.py', line 1"
    refs = ("refs/heads/main", "refs/heads/work")
    refused(world, {**{f"HEAD:{ref}": words for ref in refs}, "HEAD~2:refs/heads/fine": ""})
    assert world.ref("refs/heads/main") == world.ref("refs/heads/fine")


def test_a_key_in_a_commit_is_refused(world: World) -> None:
    """Messages, the names of people, of files and branches are published with the files; such a name is not
    shown."""
    git = world.agent.git
    commit = ("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m")
    people: list[dict[str, str]] = [{"GIT_AUTHOR_NAME": KEY}, {"GIT_COMMITTER_EMAIL": KEY}]
    made = [git(*commit, f"message\n\n{KEY}"), *(git(*commit, "x", **person) for person in people)]
    message = "in its message, or the name of who made it"
    wanted = [(tip, f"commit {tip[:12]} {AN_ANTHROPIC_KEY} {message}") for tip in (*made, git(*commit, "message"))]
    wanted[-1] = wanted[-1][0], ""
    paths = (f"{KEY}.txt", f"src/{KEY}/x", f"src/{KEY}")
    named = world.agent.commits({path: f"{path}\n"} for path in paths)
    wanted += [(tip, f"{AN_ANTHROPIC_KEY} in the name of") for tip in named]
    assert "[secret]" in refused(world, on_branches(wanted))
    for ref in (f"refs/heads/{KEY}", f"refs/heads/x/{KEY}"):
        said = world.agent.refused(f"HEAD:{ref}").partition("\nTo ")[0]
        assert f"the push {AN_ANTHROPIC_KEY} in its name" in said
        assert KEY not in said


def test_what_the_repository_has_already_is_not_judged_again(world: World) -> None:
    """What the PM let in may be copied, and the file that holds it changed; elsewhere in a new text it is refused."""
    world.pm.commit({"src/tests/keys.py": f"a = 1\nKEY = '{KEY}'\n"}, to="main")
    world.agent.git("pull", "--quiet")
    world.agent.commit({"src/copy.py": f"a = 1\nKEY = '{KEY}'\n"}, to="main")
    world.agent.commit({"src/tests/keys.py": f"a = 2\n\nKEY = '{KEY}'\n"}, to="main")
    world.agent.commit({"src/other.py": f"KEY = '{KEY}'  # changed\n"})
    refused(world, {"HEAD:refs/heads/main": f"{AN_ANTHROPIC_KEY} in 'src/other.py', line 1"})
    world.agent.git("reset", "--quiet", "--hard", "origin/main")
    world.agent.commit({"src/tests/keys.py": f"KEY = '{KEY}'\nOTHER = '{MAKERS['Anthropic'](CHANCE)}'\n"})
    refused(world, {"HEAD:refs/heads/main": f"{AN_ANTHROPIC_KEY} in 'src/tests/keys.py', line 2"})


def test_a_directive_with_a_key_does_not_stop_reports(world: World) -> None:
    """What the PM writes on the page stands there, and the agent goes on; in its reports no key is repeated."""
    world.secret(KNOWN)
    page = add_directive(PAGE, f"use {KEY}, or {KNOWN}")
    world.pm.commit({"COMMS.md": page}, to="main")
    world.agent.git("pull", "--quiet")
    world.agent.commit({"src/b.py": "1\n"}, f"use {KEY}, or {KNOWN}", to="main")
    ids = tuple(item.id for item in directives(page))
    told = Report("0" * 32, "main", "a" * 40, f"done: {KNOWN}", f"Used {KEY}.", ids)

    report(world.context(), told)

    page = world.shown("COMMS.md") or ""
    assert open_directives(page) == []
    heading, *_, words = reports(page)[-1].splitlines()
    assert heading.endswith("done: [secret]")
    assert words == "Used [secret]."


def test_several_are_told_at_once(world: World) -> None:
    """Up to five with their places."""
    world.agent.commit({f"src/{number}.py": f"KEY = '{MAKERS['Anthropic'](CHANCE)}'\n" for number in range(7)})
    assert world.judged("HEAD:refs/heads/bad").count(AN_ANTHROPIC_KEY) == 5


@pytest.mark.attack("S26")
@pytest.mark.heavy
def test_more_than_can_be_looked_at_is_refused(world: World) -> None:
    """A push unpacks to 256 MiB at most, however small it comes."""
    world.settings(blob_bytes=100 * 1024 * 1024)
    zeros = bytes(90 * 1024 * 1024)
    contents = [zeros + bytes([number]) for number in range(3)]
    entries = b"".join(
        b"100644 %d\0" % number + bytes.fromhex(id_of("blob", content)) for number, content in enumerate(contents)
    )
    content = commit_of(id_of("tree", entries), str(world.main))
    packed = pack([plain(COMMIT, content), plain(TREE, entries), *(plain(BLOB, each) for each in contents)])
    said = push(world, "refs/heads/work", id_of("commit", content), packed)
    assert "what it brings is 270 MiB unpacked, over the limit of 256; push it in smaller pieces" in said


def test_where_the_secrets_lie(tmp_path: Path) -> None:
    """Every file of the directory is one, without its line end; of a file of several lines the long words too."""
    assert read_known(str(tmp_path / "none")) == ()
    (tmp_path / "a").write_text("  one-secret\n")
    (tmp_path / "b").write_text("-----BEGIN X KEY-----\nabcdefghijklmnopqrst\nshort\n")
    (tmp_path / "c").mkdir()
    os.mkfifo(tmp_path / "d")
    (tmp_path / "e").symlink_to(tmp_path / "a")
    (tmp_path / "f").write_bytes(b"\xff\0" * 100_000)
    known = read_known(str(tmp_path))
    assert known[:3] == (b"one-secret", b"-----BEGIN X KEY-----\nabcdefghijklmnopqrst\nshort", b"abcdefghijklmnopqrst")
    assert len(known) == 4
    assert b"-----BEGIN X KEY-----" not in known


def test_secrets_that_cannot_be_read_keep_the_door_shut(world: World) -> None:
    """A door that does not know what it guards lets nothing in."""
    Path(world.places.secrets).write_text("no directory")
    assert "the git door could not look at this push" in world.agent.refused("HEAD:refs/heads/work")
    os.unlink(world.places.secrets)
    world.agent.push("HEAD:refs/heads/work")


def test_what_no_commit_needs_does_not_come_in(world: World) -> None:
    """What the repository has counts as let in: else a file could come by itself first, and its commit afterwards."""
    clean = commit_of(world.agent.git("rev-parse", "HEAD^{tree}"), str(world.main))
    packed = pack([plain(COMMIT, clean), plain(BLOB, b"key = " + KEY.encode())])
    assert "files that none of its commits has" in push(world, "refs/heads/x", id_of("commit", clean), packed)
    assert "ok refs/heads/x" in push(world, "refs/heads/x", id_of("commit", clean), pack([plain(COMMIT, clean)]))
