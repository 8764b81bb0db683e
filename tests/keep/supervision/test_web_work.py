"""When a boot is told that the work before it had read the web."""

from __future__ import annotations

from pathlib import Path

from infra.keep.supervision.web_work import WebWork
from infra.shared.active import Runner
from infra.shared.taint import state_file
from infra.shared.taint.machine import TaintState, ended, reported, served

TAINTED = served(TaintState(), ("http://a.example",), ("d1",), 1.0)


def boot(id: str, started: float) -> Runner:
    return Runner(boot_id=id, branch="main", commit="c" * 40, pid=1, started=started)


def test_a_boot_before_the_report_is_told_and_none_after_it(tmp_path: Path) -> None:
    """Until it has gone; the next one is not, though a clock that was set back makes it look older."""
    web_work, path = WebWork(str(tmp_path)), tmp_path / state_file.NAME
    first, second, third = boot("1" * 32, 10.0), boot("2" * 32, 15.0), boot("3" * 32, 40.0)
    assert web_work.look(first) == []
    path.write_bytes(state_file.encode(TAINTED))
    assert web_work.look(first) == []
    path.write_bytes(state_file.encode(reported(TAINTED, ("d1",), (), 20.0)))
    assert [web_work.look(runner) != [] for runner in (None, first, first, second, third)] == [
        False,
        True,
        True,
        False,
        False,
    ]
    path.write_bytes(state_file.encode(reported(TAINTED, ("d1",), (), 30.0)))
    assert [event.boot_id for event in web_work.look(second)] == [second.boot_id]
    next_work = ended(reported(TAINTED, ("d1",), (), 50.0), {}, 51.0)
    path.write_bytes(state_file.encode(served(next_work, ("http://a.example",), ("d2",), 52.0)))
    assert [event.boot_id for event in web_work.look(third)] == [third.boot_id], "the next work came first"
    path.write_bytes(b"{")
    assert web_work.look(first) == []
