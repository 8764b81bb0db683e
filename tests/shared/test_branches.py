"""Names of branches and refs, and signal files that hold them: what passes is harmless, all else has a reason."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from infra.shared.branches import MAIN, MAX_LENGTH, problem_with_branch, problem_with_ref
from infra.shared.paths import CONTAINER
from infra.shared.signals import MAX_BYTES, Signal, SignalName, read_signal, write_signal
from tests.shared.rows import any_text, each_row

CLOSE_CALLS = st.text(st.sampled_from("abZ09._+-/~^:@{}\\ \n\x00é"), max_size=12)
"""Mostly refused, and just not refused often enough."""
PARTS = st.sampled_from(
    [".", "..", "/", "a", "B-", "_", "+", ".lock", "lock", "minifram", "mind", "refs/", "HEAD", "-", "@"]
)
NAMES = st.one_of(CLOSE_CALLS, st.lists(PARTS, max_size=5).map("".join))


def test_a_branch_is_not_deeper_than_anybody_looks() -> None:
    """Each part but the last is a directory of the repository, and whoever searches that goes only so deep."""
    assert problem_with_branch("/".join("a" * 12)) is None
    assert "flatter" in str(problem_with_branch("/".join("a" * 13)))


@given(st.lists(NAMES, min_size=30, max_size=30))
@pytest.mark.heavy
def test_git_accepts_every_branch_name_that_is_allowed(names: list[str]) -> None:
    """A name that we allow is one that git takes as a branch, unchanged."""
    allowed = [name for name in names if problem_with_branch(name) is None]
    assume(allowed)
    # One process for many names: the shell passes each on as it is.
    script = 'for name; do git check-ref-format --branch "$name" || exit 1; done'
    said = subprocess.run(["sh", "-c", script, "sh", *allowed], capture_output=True, text=True, check=False)
    assert said.stdout.split("\n")[:-1] == allowed, said.stderr


@pytest.mark.attack("S19")
@given(NAMES)
def test_an_allowed_branch_stays_in_its_own_directory(name: str) -> None:
    """The clone of an allowed branch lies below the bot's directory and is nobody else's."""
    if problem_with_branch(name) is not None:
        with pytest.raises(ValueError, match="branch name"):
            CONTAINER.checkout(name)
        return
    checkout = CONTAINER.checkout(name)
    assert os.path.normpath(checkout) == checkout
    assert checkout.startswith("/bot/")
    assert checkout.split("/").index("minifram") == checkout.count("/")
    assert not checkout.startswith(("/bot/mind/", "/bot/."))


REFUSED_BRANCHES = [
    *("", "--upload-pack=x", "-b", "../x", "x/../y", "a..b", "a//b", "/a", "a/", "a.", ".a", "a/.b", "x.lock"),
    *("x.lock/y", "refs/heads/x", "HEAD", "@{-1}", "a@{1}", "main~1", "main^", "a:b", "a?b", "a*b", "a[b", "a\\b"),
    *("a b", "a\tb", "main\n", "main\r", "\x1b[31mred", "a\x00b", "é", "\u202eniam", "\udcff", "x" * (MAX_LENGTH + 1)),
    *("mind", "minifram", "a/minifram", "minifram/a", "0" * 40, "c0ffee" * 6 + "C0FF", "a" * 64),
]


@pytest.mark.attack("S19")
@each_row("name", REFUSED_BRANCHES)
def test_a_name_that_could_do_harm_is_refused_with_a_reason(name: str) -> None:
    """The reason is one line of plain characters, names what was given, and is short whatever was given."""
    problem = problem_with_branch(name)
    assert problem is not None
    assert problem.isascii() or "…" in problem
    assert problem.isprintable()
    assert len(problem) < 300
    assert not name or ascii(name[:10])[1:-1] in problem


@each_row("name", [MAIN, "improve-reports", "a/b/c", "v1.2+x_y", "A", "9", "0" * 39, "a" * 63, "x" * MAX_LENGTH])
def test_an_ordinary_name_is_allowed(name: str) -> None:
    """What people and the agent call their branches passes."""
    assert problem_with_branch(name) is None


@each_row("ref", ["main", "main^2~3", "0" * 40, "abc1234", "refs/heads/x", "snapshot/v1.2", "origin/main", "a~1^"])
def test_a_ref_to_roll_back_to_may_be_a_branch_tag_commit_or_ancestor(ref: str) -> None:
    """Rollback takes any ref (seed 001), so long as it is written plainly."""
    assert problem_with_ref(ref) is None


@each_row(
    "ref",
    [
        *("", "--all", "a..b", "a...b", "main^{tree}", "@{-1}", "main@{yesterday}", ":/fix", "main:COMMS.md", "^main"),
        *("~1", "a b", "main\n", "main\x00", "\x1b[2J", "é", "a" * (MAX_LENGTH + 1), "main~1x", "main~-1"),
    ],
)
def test_a_ref_that_is_more_than_a_name_is_refused(ref: str) -> None:
    """Ranges, reflogs, searches, files and options are no versions."""
    problem = problem_with_ref(ref)
    assert problem is not None
    assert problem.isprintable()


def test_a_long_run_of_marks_is_judged_at_once() -> None:
    """The length is looked at first, and no pattern tries a text in exponentially many ways."""
    assert problem_with_ref("a" + "~^" * 100_000 + "!") is not None
    assert problem_with_ref("a" + "~^" * 90 + "!") is not None
    assert problem_with_branch("a" + "/b" * 90 + "!") is not None


@pytest.mark.parametrize("name", SignalName)
@pytest.mark.parametrize("target", ["main", "improve/reports-2"])
def test_a_signal_comes_through_its_file(tmp_path: Path, name: SignalName, target: str) -> None:
    """One file, named after what is asked, one line, nothing beside it."""
    directory = tmp_path / ".signal"
    write_signal(str(directory), Signal(name, target))
    assert os.listdir(directory) == [name.value]
    content = (directory / name.value).read_bytes()
    assert content == f"{target}\n".encode()
    assert read_signal(name, content) == Signal(name, target)


@pytest.mark.fault("F24")
@pytest.mark.attack("S19")
@each_row(
    "content, reason",
    [
        (b"", "empty"),
        (b"\n", "empty"),
        (b"ma\x00in\n", "not allowed"),
        (b"a" * MAX_BYTES + b"\n", f"over {MAX_BYTES} bytes"),
        (b"a" * (MAX_BYTES - 1) + b"\n", "characters long"),
        (b"main\xff\n", "not UTF-8"),
        (b"\xef\xbb\xbfmain\n", "not allowed"),
        (b"main\r\n", "not allowed"),
        (b"main\n\n", "several lines"),
        (b"--upload-pack=x\n", "not allowed"),
        (b"/bot/main\n", "not allowed"),
        (b'{"branch": "main"}\n', "not allowed"),
    ],
)
def test_a_file_that_asks_for_nothing_sensible_is_refused_with_a_reason(content: bytes, reason: str) -> None:
    """The reason names the signal and is one short line, whatever the file held."""
    for name in SignalName:
        with pytest.raises(ValueError, match=reason) as refused:
            read_signal(name, content)
        assert f"the {name.value} signal" in str(refused.value)
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 300


@pytest.mark.fault("F24")
@each_row("content", [b"refs/heads/x\n", b"main~1\n", b"mind\n", b"c0ffee" * 6 + b"c0ff\n", b"HEAD\n"])
def test_bootstrap_takes_the_short_name_of_a_branch_only(content: bytes) -> None:
    """What is fine for a rollback is not a branch to launch: full refs, ancestors, commits, the mind."""
    assert read_signal(SignalName.ROLLBACK, content).target == content.decode().strip()
    with pytest.raises(ValueError, match="the bootstrap signal was refused"):
        read_signal(SignalName.BOOTSTRAP, content)


@given(
    st.sampled_from(SignalName),
    st.one_of(st.binary(max_size=40), any_text(max_size=20).map(lambda text: text.encode(errors="replace"))),
)
def test_any_bytes_are_a_signal_or_a_value_error(name: SignalName, content: bytes) -> None:
    """Whatever the cell writes, the watcher is never surprised; what is accepted says exactly what the file said."""
    try:
        signal = read_signal(name, content)
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = ""
        assert content in (signal.target.encode(), signal.target.encode() + b"\n")
    assert refusal.isprintable()


@pytest.mark.parametrize("name", SignalName)
@pytest.mark.parametrize("target", ["", "-b", "../x", "a\nb", "x" * 300])
def test_a_target_that_cannot_be_is_not_written(tmp_path: Path, name: SignalName, target: str) -> None:
    """The writer hears at once what the watcher would refuse later."""
    with pytest.raises(ValueError, match="is"):
        write_signal(str(tmp_path / ".signal"), Signal(name, target))
    assert not (tmp_path / ".signal").exists()


def test_the_line_may_lack_its_newline() -> None:
    """`printf main > .signal/bootstrap` is as good: files are written whole, so nothing can be missing."""
    assert read_signal(SignalName.BOOTSTRAP, b"main") == Signal(SignalName.BOOTSTRAP, "main")
