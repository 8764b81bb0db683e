"""The ledger's chain: what was written by the door is whole, and whatever is done to it afterwards is found."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.keep.ledger.chain import MOST_FINDINGS, Checked, check
from infra.keep.ledger.ledger import Ledger
from tests.keep.model_door.test_budget import an_end, an_opening


def written(path: Path, calls: int, first: int = 0) -> list[bytes]:
    ledger = Ledger(str(path))
    for number in range(first, first + calls):
        ledger.append(an_opening(f"call-{number}"))
        ledger.append(an_end(f"call-{number}", nano=number))
    ledger.close()
    return path.read_bytes().splitlines()


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    return written(tmp_path_factory.mktemp("ledger") / "ledger.jsonl", 6)


def test_what_the_door_wrote_is_whole(tmp_path: Path) -> None:
    """Over several lives of the door, too; each begins with the head that the last one left."""
    path = tmp_path / "ledger.jsonl"
    written(path, 3)
    found = check(written(path, 2, first=3))
    assert found == Checked(lines=10, unlinked=0, torn=0, calls=5, head=found.head, findings=())
    assert len(found.head) == 64
    assert check(()).findings == ()


@given(st.data())
def test_any_change_is_found(lines: list[bytes], data: st.DataObject) -> None:
    """One byte changed, a line taken out, put in twice, or two that change places."""
    spoiled = list(lines)
    at = data.draw(st.integers(0, len(lines) - 1))
    kind = data.draw(st.sampled_from(["a byte", "out", "twice", "swapped"]))
    if kind == "a byte":
        where = data.draw(st.integers(0, len(lines[at]) - 1))
        byte = data.draw(st.integers(0, 255).filter(lambda each: each != lines[at][where]))
        spoiled[at] = lines[at][:where] + bytes([byte]) + lines[at][where + 1 :]
    elif kind == "out" and at < len(lines) - 1:
        del spoiled[at]
    elif kind == "swapped" and at < len(lines) - 1:
        spoiled[at : at + 2] = spoiled[at : at + 2][::-1]
    else:
        spoiled.insert(at, lines[at])
    found = check(spoiled)
    # The last line has none behind it: cut or spoiled, it looks like one that a power cut left.
    assert found.findings or (kind == "a byte" and at == len(lines) - 1 and found.head != check(lines).head)


def test_lines_from_the_end_are_missed_by_whoever_noted_the_head(lines: list[bytes]) -> None:
    """The file alone cannot tell."""
    assert check(lines[:-2]).findings == ()
    assert check(lines[:-2]).head != check(lines).head


def test_lines_from_before_there_was_a_chain_are_told_apart(tmp_path: Path, lines: list[bytes]) -> None:
    """At the beginning they are how the ledger was; behind one with a hash, somebody put them in."""
    path = tmp_path / "ledger.jsonl"
    old = [line.partition(b',"chain"')[0] + b"}" for line in lines[:4]]
    path.write_bytes(b"\n".join(old) + b"\n")
    found = check(written(path, 1, first=7))
    assert (found.unlinked, found.calls, found.findings) == (4, 3, ())
    assert "line 3 has no hash" in check([*lines[:2], old[2], *lines[3:]]).findings[0]


def test_a_torn_line_breaks_nothing(tmp_path: Path) -> None:
    """A power cut in mid line, between two lives: passed over, and the chain goes on from the last whole line."""
    path = tmp_path / "ledger.jsonl"
    torn = written(path, 2)[0][:40]
    with open(path, "ab") as file:
        file.write(torn)
    found = check(written(path, 1, first=2))
    assert (found.torn, found.calls, found.findings) == (1, 3, ())


@pytest.mark.parametrize("lost", [1, 2, 50])
def test_a_file_that_takes_half_a_line_breaks_nothing(tmp_path: Path, lost: int) -> None:
    """The door goes on with the same file, and so it does when it is started again."""
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(str(path))
    ledger.append(an_opening("a"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * path.stat().st_size - lost, hard))
    try:
        with pytest.raises(OSError, match="is the disk full"):
            ledger.append(an_opening("b"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    ledger.append(an_opening("c"))
    ledger.close()
    found = check(written(path, 1, first=9))
    assert found.findings == ()
    assert (found.torn, found.calls) == ((0, 4) if lost == 1 else (1, 3))


def test_ends_without_a_beginning_and_second_ends_are_told(tmp_path: Path) -> None:
    """The hashes are right, since the door wrote them: what it wrote is not."""
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(str(path))
    for line in (an_opening("a"), an_end("a"), an_end("a"), an_end("b")):
        ledger.append(line)
    ledger.close()
    assert [finding.partition(" ends ")[2] for finding in check(path.read_bytes().splitlines()).findings] == [
        "a call that was ended",
        "a call that was never begun",
    ]


def test_of_many_findings_the_first_are_told(lines: list[bytes]) -> None:
    """And how many more there are."""
    many = check(lines[1:2] * 50).findings
    assert len(many) == MOST_FINDINGS + 1
    assert many[-1].startswith("and ")


def test_garbage_is_no_reason_to_fail() -> None:
    """It is counted as torn."""
    found = check([b"", b"\xff\xfe", b"[]", b'{"event": 1}', b"{" * 2000])
    assert (found.torn, found.calls) == (4, 0)
