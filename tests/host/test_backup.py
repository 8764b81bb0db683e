"""`minifram backup` and `init --from`: what goes in comes out, nothing else gets in, and what is bad leaves nothing."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import tarfile
import threading
from pathlib import Path

import pytest

from tests.cell.loop.waiting import wait_for
from tests.host.container_desk import WAIT_SECONDS, ContainerDesk, Workshop, a_desk
from tests.host.desk import Desk, pay
from tests.shared.mind.events import DAY, event_of, write_events
from tests.shared.web_traces import WebTrace

KEY = "sk-ant-not-a-real-key"
NAMES = ["repository.bundle", "minifram.yaml", "ledger.jsonl", f"events/{DAY[:10]}.jsonl"]
BEGIN = ("init", "--sandbox", "process", "--agent", "second", "--from")


@pytest.fixture
def lived(desk: Desk) -> Desk:
    """An agent with a history: branches of all kinds, tags, a directive, events, money spent today."""
    desk.done("tell", "write a haiku")
    commit = desk.branch("improve", {"src/a.py": "a\n"})
    desk.examined("improve", commit)
    git = desk.git()
    git("tag", "--no-sign", "-m", "signed off", "annotated", commit)
    git("update-ref", "refs/minifram/rejected/x", commit)
    git("update-ref", f"refs/replace/{commit}", desk.main())
    Path(desk.home().settings).write_text("autonomy: propose\nsandbox: process\nnotify: {command: touch /tmp/owned}\n")
    day = desk.run("status", "--json").json["budget"]["day"]
    pay(desk.home().places.ledger, 0.5, 4, day)
    write_events(desk.home().places.events, [event_of("one")])
    return desk


def saved(desk: Desk) -> Path:
    path = desk.root / "saved.tar.gz"
    desk.done("backup", str(path))
    return path


def everything(desk: Desk) -> set[str]:
    return {str(path) for path in desk.root.rglob("*") if "/project/" not in str(path)}


def test_what_goes_in_comes_out(lived: Desk) -> None:
    """Refs but what another keep concluded, page, money and events; settings beside the new agent's own."""
    path = saved(lived)
    with tarfile.open(path) as archive:
        assert archive.getnames() == NAMES
    assert path.stat().st_mode & 0o777 == 0o600

    begun = lived.done(*BEGIN, str(path))

    old, new = lived.home(), lived.home("second")
    refs = lived.git()("for-each-ref").splitlines()
    kept = [ref for ref in refs if "refs/minifram/" not in ref or "refs/minifram/rejected/" in ref]
    assert lived.git("second")("for-each-ref").splitlines() == [ref for ref in kept if "refs/replace" not in ref]
    assert len(kept) < len(refs)
    assert lived.git("second")("symbolic-ref", "HEAD") == "refs/heads/main"
    for place in (new.data, new.remote, new.places.bot, new.state, new.run):
        assert os.stat(place).st_mode & 0o777 == 0o700, place
    beside = Path(f"{new.settings}.from-backup")
    assert beside.read_bytes() == Path(old.settings).read_bytes()
    assert "owned" not in Path(new.settings).read_text()
    assert str(beside) in begun.err
    before, after = (lived.run("status", "--json", "--agent", name).json for name in ("agent", "second"))
    assert (after["budget"]["usd"], after["open_directives"]) == (before["budget"]["usd"], 1) == (0.5, 1)
    [day] = Path(new.places.events).iterdir()
    assert day.read_bytes() == Path(old.places.events, day.name).read_bytes()
    assert lived.run("doctor", "--agent", "second", "--json").json["findings"] == []
    started = lived.call("up", "--agent", "second", "--json")
    assert started.json["commit"] == lived.main()
    assert lived.call("down", "--agent", "second").code == 0


def test_an_agent_that_is_tainted_begins_tainted(lived: Desk) -> None:
    """Until the PM trusts it there; what he had trusted before stays trusted."""
    WebTrace(lived.home().places).served()
    path = saved(lived)
    lived.done(*BEGIN, str(path))
    assert "tainted by an unknown origin since " in lived.run("status", "--agent", "second").out
    lived.done("trust", "--agent", "second")
    path.unlink()
    lived.done("backup", str(path), "--agent", "second")
    lived.done("init", "--sandbox", "process", "--agent", "third", "--from", str(path))
    assert "tainted" not in lived.run("status", "--agent", "third").out


def test_a_running_agent_is_backed_up_as_it_stands(lived: Desk) -> None:
    """Main moves all the while; what is saved is one state of it. The key that the agent has is not in it."""
    Path(lived.home().settings).write_text("sandbox: process\nmodel: {provider: anthropic}\n")
    assert lived.call("up", ANTHROPIC_API_KEY=KEY).code == 0
    stop = threading.Event()

    def push() -> None:
        while not stop.is_set():
            lived.report("done: something", "More.")

    pusher, before = threading.Thread(target=push), lived.main()
    pusher.start()
    try:
        wait_for(lambda: lived.main() != before, "a push")
        path = saved(lived)
    finally:
        stop.set()
        pusher.join()
    lived.done(*BEGIN, str(path))

    commit = lived.main("second")
    assert lived.git().ok("merge-base", "--is-ancestor", before, commit)
    assert lived.git().ok("merge-base", "--is-ancestor", commit, lived.main())
    assert KEY.encode() not in gzip.decompress(path.read_bytes())


def test_no_file_is_overwritten_or_made_where_none_can_be(lived: Desk) -> None:
    """Without a name it is called after agent and time, here."""
    taken, link = lived.root / "taken", lived.root / "link"
    taken.write_text("mine")
    link.symlink_to(lived.root / "nowhere")
    before = everything(lived)
    for file, code in ((taken, 6), (link, 6), (lived.root, 6), (lived.root / "no/such", 4)):
        ended = lived.run("backup", str(file))
        assert (ended.code, "give another FILE" in ended.err) == (code, True), ended
    assert everything(lived) == before
    here = lived.root / "here"
    here.mkdir()
    with contextlib.chdir(here):
        lived.done("backup")
    [path] = here.iterdir()
    assert (path.name.startswith("minifram-agent-2"), path.name.endswith("Z.tar.gz")) == (True, True)


def test_no_link_or_pipe_is_followed(lived: Desk) -> None:
    events = Path(lived.home().places.events)
    (events / "2026-02-01.jsonl").symlink_to("/etc/passwd")
    os.mkfifo(events / "2026-02-02.jsonl")
    ended = lived.done("backup", str(lived.root / "saved"))
    with tarfile.open(lived.root / "saved") as archive:
        assert archive.getnames() == NAMES
    assert "2026-02-01.jsonl is left out" in ended.err


def repacked(path: Path, change: dict[str, bytes], *more: tarfile.TarInfo) -> Path:
    """The same file with other content of some names, and more entries."""
    other = path.with_name("other.tar.gz")
    with tarfile.open(path) as archive, tarfile.open(other, "w:gz") as out:
        for each in archive.getmembers():
            content = change.get(each.name) or archive.extractfile(each).read()  # type: ignore[union-attr]
            each.size = len(content)
            out.addfile(each, io.BytesIO(content))
        for each in more:
            out.addfile(each, io.BytesIO(b"x" * each.size))
    return other


def test_what_no_backup_holds_is_passed_over(lived: Desk) -> None:
    """Names that lead elsewhere, links, and files that nobody asked for."""
    link, outside, hook = (
        tarfile.TarInfo(name) for name in ("minifram.link", "../../outside", "remote.git/hooks/hook")
    )
    link.type, link.linkname, outside.size, hook.size = tarfile.SYMTYPE, "/etc/passwd", 1, 1
    before = everything(lived)
    lived.done(*BEGIN, str(repacked(saved(lived), {}, link, outside, hook)))
    new = {path for path in everything(lived) - before if Path(path).name in ("minifram.link", "outside", "hook")}
    assert new == set()


def test_a_file_that_is_no_good_backup_leaves_nothing(lived: Desk) -> None:
    """What is there is never overwritten either."""
    path = saved(lived)
    content = path.read_bytes()
    damaged = lived.git()("bundle", "create", "--quiet", str(lived.root / "b"), "refs/heads/improve") or "b"
    repacked(path, {"repository.bundle": (lived.root / damaged).read_bytes()})
    (lived.root / "short.tar.gz").write_bytes(content[: len(content) // 2])
    (lived.root / "words.tar.gz").write_text("words")
    before = everything(lived) | {str(lived.home("second").run.rpartition("/")[0])}
    for name in ("short", "words", "other"):
        ended = lived.run(*BEGIN, str(lived.root / f"{name}.tar.gz"))
        assert (ended.code in (1, 4), "Traceback" in ended.err) == (True, False), ended
        assert everything(lived) == before, name
    assert lived.run("init", "--from", str(path)).code == 6


@pytest.mark.heavy
@pytest.mark.timeout(WAIT_SECONDS)
def test_an_agent_in_its_container_is_saved_and_another_begins_with_it(workshop: Workshop) -> None:
    """Beside files that belong to other uids."""
    archive = workshop.user.directory("saved") / "running"
    other = ContainerDesk(workshop)
    with a_desk(workshop) as desk, contextlib.ExitStack() as last:
        last.callback(other.clear)
        up = desk.done("up", "--json").json
        desk.done("backup", str(archive))
        with desk.user.alone("init"):
            other.done("init", "--model", "scripted", "--from", str(archive))
        again = other.done("up", "--json").json
        assert (again["sandbox"], again["commit"]) == ("podman", up["commit"])
