"""Signal files: what is written is read, and everything else is refused with a reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.shared.signals import MAX_BYTES, Signal, SignalName, read_signal, write_signal
from tests.shared.rows import each_row
from tests.shared.texts import any_text

BOTH = pytest.mark.parametrize("name", SignalName, ids=lambda name: name.value)


@pytest.mark.parametrize(
    "signal",
    [
        Signal(SignalName.BOOTSTRAP, "main"),
        Signal(SignalName.BOOTSTRAP, "improve/reports-2"),
        Signal(SignalName.ROLLBACK, "main~3"),
        Signal(SignalName.ROLLBACK, "c0ffee0"),
    ],
    ids=str,
)
def test_a_signal_comes_through_its_file(tmp_path: Path, signal: Signal) -> None:
    """One file, named after what is asked, one line, nothing beside it."""
    directory = tmp_path / ".signal"
    write_signal(str(directory), signal)
    assert os.listdir(directory) == [signal.name.value]
    content = (directory / signal.name.value).read_bytes()
    assert content == f"{signal.target}\n".encode()
    assert read_signal(signal.name, content) == signal


def test_the_newest_signal_of_a_name_stands(tmp_path: Path) -> None:
    """Written whole over the older one."""
    for branch in ("a-branch-with-a-long-name", "b"):
        write_signal(str(tmp_path), Signal(SignalName.BOOTSTRAP, branch))
    assert (tmp_path / "bootstrap").read_bytes() == b"b\n"


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


@BOTH
@pytest.mark.parametrize("target", ["", "-b", "../x", "a\nb", "x" * 300])
def test_a_target_that_cannot_be_is_not_written(tmp_path: Path, name: SignalName, target: str) -> None:
    """The writer hears at once what the watcher would refuse later."""
    with pytest.raises(ValueError, match="is"):
        write_signal(str(tmp_path / ".signal"), Signal(name, target))
    assert not (tmp_path / ".signal").exists()


def test_the_line_may_lack_its_newline() -> None:
    """`printf main > .signal/bootstrap` is as good: files are written whole, so nothing can be missing."""
    assert read_signal(SignalName.BOOTSTRAP, b"main") == Signal(SignalName.BOOTSTRAP, "main")
