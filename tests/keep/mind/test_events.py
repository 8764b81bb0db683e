"""The keep's log of events: append-only, numbered, with the keep's word on time and origins."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from infra.keep.mind.events import EventLog
from infra.shared.mind.event import MindEvent
from infra.shared.paths import Paths
from tests.faults.disks import fill, small_disk
from tests.shared.mind.events import logged

NOW = 1769856132.0
RUN = "2026-01-31T104000.000Z-0123abcd"
TOLD = {"event_type": "note", "run_id": RUN}


@pytest.fixture
def places(tmp_path: Path) -> Paths:
    (tmp_path / "var").mkdir()
    return Paths(f"{tmp_path}/bot", f"{tmp_path}/remote.git", f"{tmp_path}/run", f"{tmp_path}/var")


def events(places: Paths) -> list[MindEvent]:
    return [line.event for line in logged(places.events)]


def test_the_keep_stamps_what_it_is_told(places: Paths) -> None:
    log = EventLog(places)
    told = log.append([TOLD | {"timestamp": "2020-01-01", "seq": 99, "later": 1}, TOLD], NOW)
    assert (told.last, told.at[:19]) == (2, "2026-01-31T10:42:12")
    log.append([{"event_type": "error", "outcomes": {"observations": "postgres://app:tr0ub4dor@db/x"}}], NOW + 86_400)
    one, two, three = events(places)
    assert (one.seq, two.seq, three.seq, one.timestamp) == (1, 2, 3, told.at)
    assert three.outcomes.observations == "postgres://app:[secret]@db/x"
    assert sorted(os.listdir(places.events)) == ["2026-01-31.jsonl", "2026-02-01.jsonl"]
    modes = [os.stat(path).st_mode for path in (places.events, f"{places.events}/2026-01-31.jsonl")]
    assert not any(mode & 0o022 for mode in modes)


@pytest.mark.parametrize("left", [b"", b'{"event_type":"no', b"\0" * 40, b"[]\n"])
def test_the_next_keep_goes_on_behind_what_is_left(places: Paths, left: bytes) -> None:
    """A power cut may have torn the last line; the clock may have been set back."""
    EventLog(places).append([TOLD, TOLD], NOW)
    with open(f"{places.events}/2026-01-31.jsonl", "ab") as file:
        file.write(left)
    EventLog(places).append([TOLD], NOW - 86_400)
    assert EventLog(places).append([TOLD], NOW).last == 4
    assert sorted(event.seq for event in events(places)) == [1, 2, 3, 4]


@pytest.mark.attack("S63")
@pytest.mark.parametrize("wrong", [{}, TOLD | {"metadata": 7}])
def test_what_is_no_event_is_refused_with_all_that_came_with_it(places: Paths, wrong: dict[str, object]) -> None:
    log = EventLog(places)
    with pytest.raises(ValueError, match=r"event_type|Invalid enum|Expected"):
        log.append([TOLD, wrong], NOW)
    assert events(places) == []
    assert log.append([TOLD], NOW).last == 1


@pytest.mark.attack("S63")
def test_origins_are_what_the_web_door_served_to_the_run(places: Paths) -> None:
    lines = (
        ("10:39:00", "https://before.example"),
        ("10:41:00", "https://a.example"),
        ("10:41:30", "https://b.example"),
    )
    with open(places.web_trace, "w", encoding="utf-8") as file:
        for at, origin in lines:
            file.write(f'{{"at":"2026-01-31T{at}.000Z","status":"ok","origin":"{origin}"}}\n')
    log = EventLog(places)
    log.append([TOLD | {"metadata": {"origins": ["https://lie.example"]}}, {"event_type": "note"}], NOW)
    log.append([TOLD | {"run_id": "2026-01-31T104200.000Z-0123abcd"}, TOLD | {"run_id": "odd"}], NOW)
    found = [event.metadata.origins for event in events(places)]
    both = ("https://b.example", "https://a.example")
    assert found == [both, (), (), (*both, "https://before.example")]


def test_many_at_once_are_numbered_one_by_one(places: Paths) -> None:
    log = EventLog(places)
    threads = [threading.Thread(target=log.append, args=([TOLD] * 5, NOW)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [event.seq for event in events(places)] == list(range(1, 41))


@pytest.mark.fault("F88")
@pytest.mark.heavy
def test_what_a_full_disk_does_not_take_leaves_no_half_line(places: Paths) -> None:
    """Fault: no room for an event; expected: it is said, nothing of it is there, and the next has its number."""
    log = EventLog(places)
    with small_disk(Path(places.events), "1m") as disk:
        filler = fill(disk)
        with pytest.raises(OSError, match="No space"):
            log.append([TOLD], NOW)
        filler.unlink()
        assert log.append([TOLD], NOW).last == 1
        assert len(events(places)) == 1
