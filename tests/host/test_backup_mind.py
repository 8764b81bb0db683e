"""What of the mind is in no commit is in a backup, and comes back; what does not fit is named, no link followed."""

from __future__ import annotations

import io
import json
import os
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest

from host.agent import mind_files
from host.agent.events import mind_of
from host.errors import CommandError
from infra.cell.mind.event_writer import EventWriter
from infra.shared.mind.event import path_of
from infra.shared.mind.heads import FILE, Head, line_of
from tests.host.desk import Desk
from tests.shared.mind.events import DAY, event_of


def mind(desk: Desk, agent: str = "agent") -> Path:
    return Path(desk.home(agent).places.mind)


def test_events_scratch_and_the_keeps_notes_come_back(desk: Desk) -> None:
    writer = EventWriter(str(mind(desk)), print)
    writer.append(event_of("one", "2026-01-30T10:00:00.000Z"))
    tip = writer.append(event_of("two"))
    Path(desk.home().places.var, FILE).write_bytes(line_of(Head("run-1", *tip, DAY)))
    scratch = mind(desk) / "scratch" / "deep"
    scratch.mkdir(parents=True)
    (scratch / "notes.txt").write_bytes(b"half an idea\xff\0")
    (mind(desk) / "memory").mkdir()
    (mind(desk) / "memory" / "working.md").write_text("in a commit, and not here")

    made = desk.done("backup", str(desk.root / "saved.tar.gz"))
    restored = desk.done("restore", str(desk.root / "saved.tar.gz"), "--agent", "second")

    assert "of the mind" not in made.out
    assert "3 files of events and scratch" in restored.out
    files = {path.relative_to(mind(desk, "second")): path for path in mind(desk, "second").rglob("*") if path.is_file()}
    assert {str(name): path.read_bytes() for name, path in files.items()} == {
        name: (mind(desk) / name).read_bytes()
        for name in (path_of(DAY), path_of("2026-01-30"), "scratch/deep/notes.txt")
    }
    whole = desk.done("events", "--verify", "--agent", "second").out
    assert "the end of 1 run" in whole
    assert tip.hash in whole


def test_links_pipes_repositories_and_odd_names_are_left_out_and_named(desk: Desk) -> None:
    scratch = mind(desk) / "scratch"
    (scratch / ".git").mkdir(parents=True)
    (scratch / ".git" / "config").write_text("x")
    (scratch / "kept").write_text("kept")
    os.symlink("/etc/passwd", scratch / "link")
    os.symlink("/etc", scratch / "directory")
    os.mkfifo(scratch / "pipe")
    (scratch / "\x1b[2J").write_text("x")
    (scratch / os.fsdecode(b"\xff")).write_text("x")
    (scratch / ("n" * 200)).write_text("x")
    part = desk.root / "part"
    left_out = mind_files.pack(mind_of(desk.home()), str(part))
    assert len(left_out) == 6
    with tarfile.open(part) as archive:
        assert archive.getnames() == ["scratch/kept"]
    assert "\x1b" not in mind_files.words_of(left_out)
    assert "6 files of the mind" in desk.done("backup", str(desk.root / "saved")).out


def test_what_does_not_fit_is_left_out_old_events_and_scratch_first(desk: Desk) -> None:
    for name in ("logs/events/2026-01-30.jsonl", "logs/events/2026-01-31.jsonl", "scratch/a"):
        path = mind(desk) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 3000)
    left_out = mind_files.pack(mind_of(desk.home()), str(desk.root / "part"), tarfile.RECORDSIZE + 5000)
    assert left_out == ["logs/events/2026-01-30.jsonl", "scratch/a"]


def test_a_file_that_grows_or_shrinks_meanwhile_is_as_long_as_was_told() -> None:
    assert mind_files._Exactly(io.BytesIO(b"longer by now").read, 6).read() == b"longer"
    short = mind_files._Exactly(io.BytesIO(b"short").read, 8)
    assert short.read(5) + short.read(3) == b"short\n\n\n"


@pytest.mark.parametrize(
    "name",
    ["../x", "scratch/../../x", "/etc/x", "scratch/.git/config", "memory/beliefs.md", "logs/events/x.jsonl", "scratch"],
)
def test_no_part_of_somebody_elses_writes_anywhere_else(tmp_path: Path, name: str) -> None:
    part = _part(tmp_path, [(name, tarfile.REGTYPE)])
    with pytest.raises(CommandError, match="no backup does"):
        mind_files.unpack(part, str(tmp_path / "deep" / "mind"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["part"]


def test_links_and_names_twice_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="link"):
        mind_files.unpack(_part(tmp_path, [("scratch/a", tarfile.SYMTYPE)]), str(tmp_path / "one"))
    for names in (["scratch/a", "scratch/a"], ["scratch/a", "scratch/a/b"]):
        with pytest.raises(CommandError, match="twice"):
            mind_files.unpack(_part(tmp_path, [(name, tarfile.REGTYPE) for name in names]), str(tmp_path / names[1]))


def test_an_archive_of_the_version_before_has_no_events(desk: Desk) -> None:
    desk.done("backup", str(desk.root / "new.tar.gz"))
    with tarfile.open(desk.root / "new.tar.gz") as archive:
        parts = {each.name: archive.extractfile(each).read() for each in archive.getmembers()}  # type: ignore[union-attr]
    said = json.loads(parts.pop("manifest.json")) | {"schema": "minifram.archive/2"}
    del parts["mind.tar"], parts["mind-heads.jsonl"]
    said["parts"] = {name: {"bytes": len(part), "sha256": sha256(part).hexdigest()} for name, part in parts.items()}
    with tarfile.open(desk.root / "old.tar.gz", mode="w:gz", format=tarfile.USTAR_FORMAT) as out:
        for name, content in {"manifest.json": json.dumps(said).encode(), **parts}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            out.addfile(entry, io.BytesIO(content))
    restored = desk.done("restore", str(desk.root / "old.tar.gz"), "--agent", "second")
    assert "0 files of events" in restored.out
    assert not mind(desk, "second").exists()


def _part(place: Path, entries: list[tuple[str, bytes]]) -> str:
    with tarfile.open(place / "part", mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, kind in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd" if kind == tarfile.SYMTYPE else ""
            archive.addfile(entry)
    return str(place / "part")
