"""The value that tells a runner what it is, and the lines of the boot log: they are read whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.life.boot_log import append
from infra.shared.boot import (
    FAILED,
    SUCCESS,
    VARIABLE,
    Boot,
    BootLine,
    Limits,
    format_line,
    from_json,
    parse_line,
    to_json,
)
from infra.shared.clock import timestamp
from infra.shared.paths import CONTAINER
from infra.shared.policy import Policy, Rule
from tests.cell.loop.records import no_room_beyond
from tests.shared.rows import each_row


def a_boot() -> Boot:
    return Boot(
        id="0" * 32,
        branch="main",
        commit="c0ffee" * 6 + "c0ff",
        reason="start",
        remote_url="/mnt/remote",
        autonomy="merge",
        places=CONTAINER,
        limits=Limits(600.0, 200, 7200.0, 10_000, 900.0, 600.0, 10.0, 150_000),
    )


def test_what_the_watcher_writes_the_runner_reads() -> None:
    """Every value comes back the same, through an environment variable."""
    policy = Policy("ask", rules=(Rule("deny", ("bash",)),))
    boot = msgspec.structs.replace(a_boot(), reason="\0 é\n'", policy=policy, exploration_usd=0.5)
    text = to_json(boot)
    assert "\0" not in text
    assert from_json(text) == boot


def test_what_another_version_says_more_is_passed_over_and_what_is_missing_is_named() -> None:
    raw = json.loads(to_json(a_boot()))
    more = {**raw, "new": 1, "limits": {**raw["limits"], "new": {"a": 1}, "bash_seconds": 600}}
    assert from_json(json.dumps(more)) == a_boot()
    with pytest.raises(ValueError, match=f"^{VARIABLE}: Object missing required field `branch`"):
        from_json(json.dumps({name: value for name, value in raw.items() if name != "branch"}))


INFINITE = to_json(a_boot()).replace("600.0", "Infinity", 1)


@each_row("text", ["", "{", "nonsense", "[" * 100_000, '{"id": NaN}', "\ufeff{}", "[]", "3", "null", '"x"', INFINITE])
def test_what_is_no_boot_value_is_refused_with_the_name_of_the_variable(text: str) -> None:
    """The message says where the trouble is, as the runner has nothing else to show."""
    with pytest.raises(ValueError, match=VARIABLE):
        from_json(text)


def test_bytes_of_a_strange_file_name_do_not_stop_a_start() -> None:
    """They may stand in its reason."""
    boot = msgspec.structs.replace(a_boot(), reason="fallback: \udcff")
    assert from_json(to_json(boot)).reason == "fallback: ?"


LINES = st.builds(
    BootLine,
    time=st.integers(0, 4_000_000_000_000).map(lambda milliseconds: timestamp(milliseconds / 1000)),
    word=st.sampled_from(["BOOTSTRAPPING", SUCCESS, FAILED, "ENDED"]),
    branch=st.text("aZ0._+/-", min_size=1, max_size=20),
    commit=st.one_of(st.just("-"), st.binary(min_size=20, max_size=20).map(bytes.hex)),
    boot_id=st.binary(min_size=16, max_size=16).map(bytes.hex),
    details=st.dictionaries(
        st.text("az_", min_size=1, max_size=8),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        max_size=3,
    ),
)


def a_line(**overrides: object) -> BootLine:
    line = BootLine("2026-01-31T10:42:12.345Z", SUCCESS, "main", "c" * 40, "0" * 32, {"ms": "75"})
    return line._replace(**overrides)  # type: ignore[arg-type]


def test_the_form_is_the_one_that_people_read() -> None:
    """Time, word, branch, commit, boot id, details, apart by one space."""
    line = a_line(details={"why": "no such file: /bot/a b\n"})
    written = f"2026-01-31T10:42:12.345Z SUCCESS main {'c' * 40} {'0' * 32} why=no%20such%20file:%20/bot/a%20b%0A\n"
    assert format_line(line) == written


@given(LINES)
def test_every_line_comes_back(line: BootLine) -> None:
    """Whatever a detail holds, it is one line of plain characters, and reads back the same."""
    text = format_line(line)
    assert text.isascii()
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert parse_line(text) == line


@given(LINES, st.data())
def test_a_part_of_a_line_is_no_line(line: BootLine, data: st.DataObject) -> None:
    """Only the newline tells that a line is whole: cut anywhere, also in its details, it is nobody's evidence."""
    text = format_line(line)
    cut = data.draw(st.integers(0, len(text) - 1))
    assert parse_line(text[:cut]) is None
    assert parse_line(text[:cut] + text) is None or cut == 0


@given(
    LINES,
    st.integers(0, 200),
    st.integers(0, 3),
    st.text(st.sampled_from("2aZ .%=\n\r\0\u2028\x1c٣é\udcff"), max_size=4),
)
def test_garbage_never_raises(line: BootLine, at: int, taken: int, put: str) -> None:
    """The log is the cell's to write: anything may stand there, nearly right above all."""
    text = format_line(line)
    broken = text[:at] + put + text[at + taken :]
    for garbage in (broken, broken + "\n", put, f"{put}\n"):
        found = parse_line(garbage)
        assert found is None or parse_line(format_line(found)) == found


@each_row(
    "text",
    [
        "{}\n",
        format_line(a_line()) + "\n",
        format_line(a_line()).replace(" main", "  main"),
        format_line(a_line()).replace("SUCCESS", "SUCCESSFUL"),
        format_line(a_line()).replace("Z", ""),
        format_line(a_line()).replace("2026", "٢٠٢٦"),
        format_line(a_line(commit="c" * 39)),
        format_line(a_line(boot_id="0" * 33)),
        format_line(a_line(branch="a b")),
        format_line(a_line()).replace("\n", "\r\n"),
        " " + format_line(a_line()),
    ],
)
def test_a_line_in_another_form_is_none(text: str) -> None:
    """Near is not enough; the same line in the right form is read."""
    assert parse_line(text) is None
    assert parse_line(format_line(a_line())) == a_line()


def test_words_that_are_no_text_are_told_all_the_same() -> None:
    """A failure is reported even when its reason holds bytes of a strange file name."""
    text = format_line(a_line(word=FAILED, details={"why": "cannot read '\udcff'"}))
    line = parse_line(text)
    assert line is not None
    assert line.details == {"why": r"cannot read '\udcff'"}


def test_the_log_and_its_directory_are_made(tmp_path: Path) -> None:
    """A first boot finds no logs/; after a torn write the next line begins on a line of its own."""
    path = tmp_path / "logs/bootstrap.log"
    append(str(path), format_line(a_line()))
    path.write_text(path.read_text() + format_line(a_line())[:-20])
    append(str(path), format_line(a_line(word=FAILED)))
    found = [parse_line(text) for text in path.read_text().splitlines(keepends=True)]
    assert found == [a_line(), None, a_line(word=FAILED)]


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    """The log of a checkout is the agent's: a link there must not lead our writing elsewhere."""
    other = tmp_path / "other"
    other.write_text("mine\n")
    (tmp_path / "bootstrap.log").symlink_to(other)
    with pytest.raises(OSError, match="symbolic links"):
        append(str(tmp_path / "bootstrap.log"), format_line(a_line()))
    assert other.read_text() == "mine\n"


def test_a_full_disk_is_an_error_not_half_a_line(tmp_path: Path) -> None:
    """When only a part of the line goes in, the writer is told."""
    path = tmp_path / "bootstrap.log"
    with no_room_beyond(50), pytest.raises(OSError, match="bootstrap"):
        append(str(path), format_line(a_line()))
    assert path.stat().st_size == 50
