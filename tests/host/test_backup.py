"""`minifram backup` and `restore`: what goes in comes out, nothing else gets in, and what is bad leaves nothing."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import shutil
import tarfile
import threading
import zlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.agent import backup
from host.paths import AgentPaths
from host.repository import open as bare
from host.running import watcher as watching
from infra.keep.ledger.ledger import Ledger, Opened, Settled
from infra.shared.people import AGENT
from infra.shared.providers import KEYS
from infra.shared.repository.git import Git
from tests.host.container_desk import WAIT_SECONDS, ContainerDesk, Workshop, a_desk
from tests.host.desk import Desk, Ended, wait_for
from tests.host.tampering.examination import NewSite, sites_at
from tests.host.tampering.site import Site

KEY = "sk-ant-not-a-real-key"
NAMES = ["manifest.json", "repository.bundle", "minifram.yaml", "mind-heads.jsonl", "mind.tar", "ledger.jsonl"]
TIME, DAY = "2026-01-31T10:42:12.345Z", "2026-01-31"
Parts = dict[str, bytes]


def _lived(desk: Desk) -> None:
    """An agent with a history: branches of all kinds, a tag, a note of ours, directives, money spent."""
    desk.done("tell", "write a haiku")
    commit = desk.branch("improve", {"src/a.py": "a\n"})
    desk.validated("improve", commit)
    desk.branch("mind", {"notes.md": "I think\n"})
    desk.branch("rescue/2026-01-31T10-42-12Z", {"src/b.py": "b\n"})
    git = desk.git()
    git("update-ref", "refs/tags/snapshot/one", commit)
    git("tag", "--no-sign", "-m", "signed off", "annotated", commit)
    git("update-ref", "refs/minifram/rejected/x", commit)
    settings = Path(desk.home().settings)
    text = (
        settings.read_text()
        .replace("\nsandbox: process\n", "\nautonomy: propose\n")
        .replace("\nautonomy: merge\n", "\n")
    )
    settings.write_text(f"{text}\n# mine: ünï\n", encoding="utf-8")
    ledger = Ledger(desk.home().places.ledger)
    opened = Opened(
        time=TIME, day=DAY, id="1", unit="u", provider="anthropic", model="m", worst_usd=1.0, worst_tokens=10
    )
    ledger.append(opened)
    ledger.append(_settled(opened))
    ledger.close()


def _settled(call: Opened) -> Settled:
    return Settled(
        time=TIME,
        day=call.day,
        id=call.id,
        unit=call.unit,
        provider=call.provider,
        model=call.model,
        input_tokens=1,
        output_tokens=2,
        cache_write_tokens=3,
        cache_read_tokens=4,
        usd=0.5,
        duration_ms=1,
    )


@pytest.fixture
def lived(desk: Desk) -> Desk:
    _lived(desk)
    return desk


def _backed_up(desk: Desk, *words: str) -> Path:
    path = desk.root / "saved.tar.gz"
    desk.done("backup", str(path), *words)
    return path


def _parts(path: Path) -> Parts:
    """By the standard library, not by what is tested."""
    with tarfile.open(path) as archive:
        return {entry.name: _content(archive, entry) for entry in archive.getmembers()}


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(entry)
    assert file
    return file.read()


def _bytes(path: str) -> bytes:
    return Path(path).read_bytes()


def _everything(desk: Desk) -> dict[str, int]:
    """Each file and directory of the desk, with its size; directories that are shared by all agents do not count."""
    shared = {f"{base}/minifram" for base in ("data", "state", "config", "run")} | {"data", "state", "config", "run"}
    found = {str(path.relative_to(desk.root)): path for path in desk.root.rglob("*")}
    return {name: 0 if path.is_dir() else path.lstat().st_size for name, path in found.items() if name not in shared}


def _objects(git: Git) -> set[str]:
    return set(git("cat-file", "--batch-check=%(objectname)", "--batch-all-objects").split())


def test_what_goes_in_comes_out(lived: Desk) -> None:
    """Refs but verdicts, commits, page, settings and ledger are the same; the repository is made as init makes one."""
    path = _backed_up(lived)

    restored = lived.done("restore", str(path), "--agent", "second")

    old, new = lived.home(), lived.home("second")
    refs = lived.git()("for-each-ref").splitlines()
    kept = [ref for ref in refs if "refs/minifram/" not in ref or "refs/minifram/rejected/" in ref]
    assert lived.git("second")("for-each-ref").splitlines() == kept
    assert {"refs/heads/mind", "refs/minifram/rejected/x", "refs/tags/annotated"} < backup.refs_of(lived.git()).keys()
    reachable = set(lived.git()("rev-list", "--all", "--objects", "--no-object-names").split())
    assert _objects(lived.git("second")) == reachable
    assert lived.git("second")("symbolic-ref", "HEAD") == "refs/heads/main"
    assert lived.git("second")("cat-file", "blob", "main:COMMS.md") == lived.git()("cat-file", "blob", "main:COMMS.md")
    assert bare.configuration(new.remote) == bare.configuration(old.remote) | {"minifram.agent": "second"}
    assert _bytes(f"{new.remote}/hooks/pre-receive") == _bytes(f"{old.remote}/hooks/pre-receive")
    assert _bytes(new.settings) == _bytes(old.settings)
    assert _bytes(new.places.ledger) == _bytes(old.places.ledger)
    for place in (new.data, new.remote, new.places.bot, new.state, new.run):
        assert os.stat(place).st_mode & 0o777 == 0o700, place
    assert sorted(os.listdir(new.data)) == sorted([*os.listdir(old.data), "up.json"])
    assert os.listdir(new.state) == ["ledger.jsonl"]
    for word in ("it was 'agent'", "model's key", "not pushed", "logs", "minifram up --agent second"):
        assert word in restored.out
    found = lived.run("doctor", "--agent", "second", "--json").json["results"]
    about = [each for each in found if each["check"] in ("repository", "configuration", "planted", "hooks", "content")]
    assert {each["level"] for each in about} == {"ok"}


def test_a_restored_agent_starts_beside_the_first(lived: Desk) -> None:
    """`up` finds all it needs, at the commit that was saved, with the directives that were open."""
    lived.done("restore", str(_backed_up(lived)), "--agent", "second")

    started = lived.call("up", "--agent", "second", "--sandbox", "process", "--json")

    assert started.code == 0, started
    assert (started.json["agent"], started.json["commit"]) == ("second", lived.main())
    assert lived.done("status", "--agent", "second", "--json").json["open_directives"] == 1
    assert lived.call("up", "--sandbox", "process").code == 0, "the first one starts as before"
    assert lived.call("down", "--agent", "second").code == 0


def test_the_money_that_was_spent_stays_spent(desk: Desk) -> None:
    """Today's calls of the saved agent count for the restored one."""
    _lived(desk)
    today = desk.run("status", "--json").json["budget"]["day"]
    ledger = Path(desk.home().places.ledger)
    ledger.write_text(ledger.read_text().replace(DAY, today))

    desk.done("restore", str(_backed_up(desk)), "--agent", "second")

    before, after = (desk.run("status", "--json", "--agent", name).json["budget"] for name in ("agent", "second"))
    assert after == before
    assert after["usd"] == 0.5


def test_an_agent_goes_on_under_its_own_name_elsewhere(lived: Desk, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without --agent it is called as it was; a name in the environment or before the verb is another one."""
    path = _backed_up(lived)
    lived.done("restore", str(path), "--agent", "second")
    other = _backed_up_second(lived)
    elsewhere = Desk(tmp_path_factory.mktemp("elsewhere"))
    elsewhere.write_project()

    assert elsewhere.done("restore", str(other), "--json").json["agent"] == "second"
    assert elsewhere.done("restore", str(other), "--json", MINIFRAM_AGENT="third").json["agent"] == "third"
    found = elsewhere.done("--agent", "agent", "restore", str(other), "--json").json
    assert (found["schema"], found["agent"], found["was"]) == ("minifram.restore/1", "agent", "second")
    assert elsewhere.main("third") == elsewhere.main() == found["commit"] == lived.main()


def _backed_up_second(desk: Desk) -> Path:
    path = desk.root / "second.tar.gz"
    desk.done("backup", str(path), "--agent", "second")
    return path


def test_the_file_says_what_it_is_and_is_only_the_pms(lived: Desk, tmp_path: Path) -> None:
    """By default it is named after agent and time, here; it holds six files whose sums its manifest names."""
    here = tmp_path / "here"
    here.mkdir()

    with contextlib.chdir(here):
        found = lived.done("backup", "--json").json

    [path] = here.iterdir()
    assert found["schema"] == "minifram.backup/1"
    assert found["file"] == str(path)
    assert found["bytes"] == path.stat().st_size
    assert path.name.startswith("minifram-agent-2")
    assert path.name.endswith("Z.tar.gz")
    assert path.stat().st_mode & 0o777 == 0o600
    parts = _parts(path)
    assert list(parts) == NAMES
    manifest = json.loads(parts.pop("manifest.json"))
    assert (manifest["schema"], manifest["agent"], manifest["main"]) == ("minifram.archive/3", "agent", lived.main())
    assert manifest["minifram"] == "9.8.7"
    assert manifest["parts"] == {
        name: {"bytes": len(part), "sha256": sha256(part).hexdigest()} for name, part in parts.items()
    }


def test_a_running_agent_is_backed_up_as_it_stands(lived: Desk) -> None:
    """Main moves all the while; what is saved is one state of it, and restores."""
    assert lived.call("up", "--sandbox", "process").code == 0
    stop = threading.Event()

    def push() -> None:
        while not stop.is_set():
            lived.report("done: something", "More.")

    pusher = threading.Thread(target=push)
    before = lived.main()
    pusher.start()
    try:
        wait_for(lambda: lived.main() != before)
        path = _backed_up(lived)
    finally:
        stop.set()
        pusher.join()
    lived.done("restore", str(path), "--agent", "second")

    commit = lived.main("second")
    assert lived.git().ok("merge-base", "--is-ancestor", before, commit)
    assert lived.git().ok("merge-base", "--is-ancestor", commit, lived.main())
    assert watching.holder(lived.home().places.watcher_lock) is not None


def test_the_key_is_never_in_it(lived: Desk) -> None:
    """The running agent has one, in its file; no part of the backup holds it."""
    Path(lived.home().settings).write_text("sandbox: process\nmodel: {provider: anthropic}\n")
    assert lived.call("up", ANTHROPIC_API_KEY=KEY).code == 0
    assert KEY in Path(lived.home().key_file(KEYS[0])).read_text(), "the control: it is there"

    path = _backed_up(lived)

    assert KEY.encode() not in gzip.decompress(path.read_bytes())
    assert not [name for name, part in _parts(path).items() if KEY.encode() in part]


@pytest.mark.parametrize("where", ["settings", "ledger"])
def test_a_key_that_strayed_into_a_part_stops_the_backup(lived: Desk, where: str) -> None:
    """The part is named, the key is not; without it the same backup is made."""
    path = Path(lived.home().settings if where == "settings" else lived.home().places.ledger)
    was = path.read_text()
    path.write_text(f"{was}# {KEY}\n")
    before = _everything(lived)

    ended = lived.run("backup", str(lived.root / "saved.tar.gz"), ANTHROPIC_API_KEY=f" {KEY}\n")

    assert ended.code == 5, ended
    assert str(path) in ended.err
    assert KEY not in ended.err + ended.out
    assert _everything(lived) == before
    path.write_text(was)
    lived.done("backup", str(lived.root / "saved.tar.gz"), ANTHROPIC_API_KEY=KEY)


def test_no_file_is_overwritten_or_made_where_none_can_be(lived: Desk) -> None:
    """What is there stays as it is, a link to nowhere included; a missing directory is named."""
    taken, link = lived.root / "taken", lived.root / "link"
    taken.write_text("mine")
    link.symlink_to(lived.root / "nowhere")
    before = _everything(lived)

    for file, code in ((taken, 6), (link, 6), (lived.root, 6), (lived.root / "no/such", 4), ("-", 2)):
        ended = lived.run("backup", str(file))
        assert ended.code == code, ended
        assert str(file) in ended.err or "FILE" in ended.err
    assert _everything(lived) == before
    assert lived.run("backup", "x", "--agent", "second").code == 4


@pytest.mark.parametrize("most", [100, 3000])
def test_a_disk_that_takes_no_more_leaves_nothing(lived: Desk, most: int) -> None:
    """Neither of a backup nor of a restore is anything left; the control is the same with room."""
    path = _backed_up(lived)
    before = _everything(lived)
    limit = {"LAUNCH_WITH_FILES_OF_AT_MOST": str(most)}

    saving = lived.call("backup", str(lived.root / "more.tar.gz"), **limit)
    restoring = lived.call("restore", str(path), "--agent", "second", **limit)

    assert (saving.code, restoring.code) == (1, 1), (saving, restoring)
    assert "Traceback" not in saving.err + restoring.err
    assert _everything(lived) == before
    lived.done("restore", str(path), "--agent", "second")


def test_settings_that_no_agent_could_start_with_are_not_saved(lived: Desk) -> None:
    """A backup that cannot be restored is none; the key that is wrong is named."""
    Path(lived.home().settings).write_text("sandbx: process\n")
    ended = lived.run("backup", str(lived.root / "x"))
    assert ended.code == 2
    assert "sandbx" in ended.err
    os.unlink(lived.home().settings)
    assert lived.run("backup", str(lived.root / "x")).code == 4


def test_an_agent_that_is_there_is_never_overwritten(lived: Desk) -> None:
    """Its repository, state and settings each stand for it; the PM reads what to do."""
    path = _backed_up(lived)
    before = _everything(lived)
    there = lived.run("restore", str(path))
    assert there.code == 6
    assert "--agent" in there.err
    assert lived.home().data in there.err
    assert _everything(lived) == before

    home = lived.home("second")
    for left in (Path(home.state, "watcher.json"), Path(home.settings), Path(home.data, "notes")):
        left.parent.mkdir(parents=True)
        left.write_text("mine")
        before = _everything(lived)
        ended = lived.run("restore", str(path), "--agent", "second")
        assert ended.code == 6, left
        assert str(left) in ended.err or str(left.parent) in ended.err
        assert _everything(lived) == before
        shutil.rmtree(left.parent)
    lived.done("restore", str(path), "--agent", "second")


def test_two_makers_of_one_name_do_not_meet(lived: Desk) -> None:
    """Many restores at once, through the lock that init takes, make one agent."""
    path = _backed_up(lived)
    commands = [lived.spawn("restore", str(path), "--agent", "second") for _ in range(3)]
    codes = []
    for process in commands:
        with process:
            process.communicate(timeout=60)
        codes.append(process.returncode)

    assert codes.count(0) == 1
    assert set(codes) <= {0, 6, 75}
    assert lived.main("second") == lived.main()


def test_what_a_killed_restore_left_is_swept_away(lived: Desk) -> None:
    """Unfinished directories beside the places are not in the way of the next one."""
    path = _backed_up(lived)
    home = lived.home("second")
    left = [Path(os.path.dirname(place), ".second.new") for place in (home.data, home.state)]
    for each in left:
        (each / "parts").mkdir(parents=True)

    lived.done("restore", str(path), "--agent", "second")

    assert not [each for each in left if each.exists()]


@pytest.mark.heavy
@pytest.mark.timeout(WAIT_SECONDS)
def test_an_agent_in_its_container_is_saved_and_starts_again_in_another(workshop: Workshop) -> None:
    """Running and down alike, beside files that belong to other uids; the key that podman holds is not in it."""
    place = workshop.user.directory("saved")
    with a_desk(workshop) as desk, contextlib.closing(_Other(workshop)) as other:
        desk.settings("sandbox: podman\nmodel: {provider: anthropic}\n")
        up = desk.done("up", "--json", ANTHROPIC_API_KEY=KEY).json
        desk.done("backup", str(place / "running"))
        desk.done("down")
        desk.done("backup", str(place / "down"))
        for name in ("running", "down"):
            assert KEY.encode() not in gzip.decompress((place / name).read_bytes())
        assert [_parts(place / "down")[name] for name in NAMES[2:]] == [
            _parts(place / "running")[name] for name in NAMES[2:]
        ]

        other.done("restore", str(place / "running"))

        again = other.done("up", "--json", ANTHROPIC_API_KEY=KEY).json
        assert (again["sandbox"], again["commit"]) == ("podman", up["commit"])


class _Other(ContainerDesk):
    """A desk without an agent yet."""

    def close(self) -> None:
        self.clear()


# What is planted in the repository.


@pytest.fixture(scope="module")
def new_site(tmp_path_factory: pytest.TempPathFactory) -> NewSite:
    return sites_at(tmp_path_factory.mktemp("planted"))


def _shadow(site: Site) -> None:
    site.write("refs/heads/refs/heads/main", f"{site.main()}\n")


def _damage(site: Site) -> None:
    name = site.desk.git()("hash-object", "-w", "--stdin", stdin=b"true")
    site.desk.git()("update-ref", "refs/tags/x", name)
    path = site.path(f"objects/{name[:2]}/{name[2:]}")
    path.unlink()
    path.write_bytes(zlib.compress(b"blob 5\0false"))


def _fifo_object(site: Site) -> None:
    site.fifo("objects/ab/cdef" + "0" * 34)


def _linked_object(site: Site) -> None:
    name = site.main()
    site.lead_outside(f"objects/{name[:2]}/{name[2:]}")


@pytest.mark.parametrize(
    ("plant", "code", "words"),
    [
        (lambda site: None, 0, ""),
        (lambda site: site.fifo("refs/heads/x"), 5, "refs/heads/x"),
        (lambda site: site.lead_outside("refs/heads/x"), 5, "refs/heads/x"),
        (lambda site: site.write("refs/heads/x", "ref: refs/heads/main\n"), 5, "another ref"),
        (lambda site: site.write("objects/info/alternates", f"{site.outside}\n"), 5, "alternates"),
        (lambda site: site.set(("core.fsmonitor", "PROGRAM")), 5, "core.fsmonitor"),
        (lambda site: site.set(("uploadpack.packObjectsHook", "PROGRAM")), 5, "packobjectshook"),
        (lambda site: site.write("hooks/post-update", site.program.read_text(), 0o755), 0, ""),
        (_fifo_object, 5, "a FIFO"),
        (_linked_object, 5, "a symbolic link"),
        (_shadow, 0, ""),
        (_damage, 1, "git fsck"),
    ],
)
def test_a_planted_repository_is_refused_before_git_meets_it(
    new_site: NewSite, plant: Callable[[Site], object], code: int, words: str
) -> None:
    """Nothing runs, nothing from outside gets in, nothing is left behind; doctor is named."""
    site = new_site()
    plant(site)
    before = _everything(site.desk)

    ended = site.desk.run("backup", str(site.desk.root / "saved.tar.gz"))

    assert ended.code == code, ended
    assert words.lower() in ended.err.lower()
    assert not site.mark.exists()
    if code:
        assert "minifram doctor" in ended.err
        assert _everything(site.desk) == before
    else:
        site.desk.done("restore", str(site.desk.root / "saved.tar.gz"), "--agent", "second")
        assert sorted(os.listdir(f"{site.desk.home('second').remote}/hooks")) == [
            "pre-receive",
            "reference-transaction",
        ]


# Files that are no backup, or no good one.


@pytest.fixture(scope="module")
def saved(born: Desk, tmp_path_factory: pytest.TempPathFactory) -> tuple[Desk, Path]:
    """An empty desk, and a backup that can be restored on it."""
    desk = Desk(tmp_path_factory.mktemp("maker"))
    desk.like(born)
    _lived(desk)
    path = _backed_up(desk)
    reader = Desk(tmp_path_factory.mktemp("reader"))
    reader.write_project()
    return reader, path


def _entry(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.type = size, kind
    return entry


def _packed(parts: list[tuple[str, bytes]], format: int = tarfile.USTAR_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=format) as archive:
        for name, content in parts:
            archive.addfile(_entry(name, len(content)), io.BytesIO(content))
    return out.getvalue()


def _sealed(given: Parts, **words: Any) -> list[tuple[str, bytes]]:
    """With a manifest that is true of these parts, but for `words`."""
    manifest = json.loads(given["manifest.json"])
    rest = {name: part for name, part in given.items() if name != "manifest.json"}
    manifest["parts"] = {
        name: {"bytes": len(part), "sha256": sha256(part).hexdigest()} for name, part in rest.items()
    } | words.pop("parts", {})
    return [("manifest.json", json.dumps(manifest | words).encode()), *rest.items()]


def _with_link(parts: Parts, kind: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(_entry("manifest.json", len(parts["manifest.json"])), io.BytesIO(parts["manifest.json"]))
        entry = _entry("minifram.yaml", 0, kind)
        entry.linkname = "/etc/passwd"
        archive.addfile(entry)
    return out.getvalue()


def _resized(parts: Parts, name: str, size: int) -> list[tuple[str, bytes]]:
    return _sealed(parts, parts={name: {"bytes": size, "sha256": "0" * 64}})


def _claims(parts: Parts, size: int) -> bytes:
    """The settings' header claims another size than the manifest."""
    head = [(name, parts[name]) for name in NAMES[:2]]
    entry = _entry("minifram.yaml", size).tobuf(tarfile.GNU_FORMAT)
    before = sum(512 + len(part) + -len(part) % 512 for _, part in head)
    return gzip.compress(gzip.decompress(_packed(head))[:before] + entry)


def _with_bundle(parts: Parts, content: bytes) -> bytes:
    return _packed(_sealed(parts | {"repository.bundle": content}))


def _prerequisite(parts: Parts) -> bytes:
    first, rest = parts["repository.bundle"].split(b"\n", 1)
    return _with_bundle(parts, b"\n".join([first, b"-" + b"1" * 40 + b" before", rest]))


def _other_ref(parts: Parts, name: bytes) -> bytes:
    """A bundle whose refs hold one more, of this name."""
    first, rest = parts["repository.bundle"].split(b"\n", 1)
    main = json.loads(parts["manifest.json"])["main"].encode()
    return _with_bundle(parts, b"\n".join([first, main + b" " + name, rest]))


def _made_bundle(parts: Parts, place: Path, spoil: Callable[[Git], str]) -> bytes:
    """A true manifest over a bundle of a repository that is not as it should be."""
    remote = str(place / f"bad{len(list(place.iterdir()))}.git")
    Git("/")("init", "--quiet", "--bare", "--template=", remote)
    git = bare.git_on(remote, AGENT)
    commit = spoil(git)
    git("update-ref", "refs/heads/main", commit)
    path = f"{remote}.bundle"
    git("bundle", "create", "--quiet", path, "--all")
    return _packed(_sealed(parts | {"repository.bundle": _bytes(path)}, main=commit))


def _nameless(git: Git) -> str:
    tree = git("mktree", stdin=b"")
    text = f"tree {tree}\nauthor nobody 0 +0000\ncommitter nobody 0 +0000\n\nx\n"
    return git("hash-object", "-w", "-t", "commit", "--literally", "--stdin", stdin=text.encode())


HUGE = {"repository.bundle": {"bytes": 4 << 30, "sha256": "0" * 64}}
BAD: dict[str, tuple[Callable[[Parts, Path], bytes], str]] = {
    "nothing": (lambda parts, at: b"", "begin with manifest.json|cut off"),
    "text": (lambda parts, at: b"my diary", "not a backup of minifram's"),
    "packed text": (lambda parts, at: gzip.compress(b"my diary" * 100), "damaged"),
    "another archive": (lambda parts, at: _packed([("README", b"hi")]), "not a backup of minifram's"),
    "no manifest": (lambda parts, at: _packed(list(parts.items())[1:]), "not a backup of minifram's"),
    "no JSON": (lambda parts, at: _packed([("manifest.json", b"{")]), "makes no sense"),
    "deep JSON": (lambda parts, at: _packed([("manifest.json", b"[" * 60000)]), "makes no sense"),
    "no object": (lambda parts, at: _packed([("manifest.json", b"[]")]), "makes no sense"),
    "no words": (lambda parts, at: _packed([("manifest.json", b"\xff\xfe")]), "makes no sense"),
    "huge manifest": (lambda parts, at: _packed([("manifest.json", b" " * 100000)]), "too large"),
    "unknown schema": (lambda parts, at: _packed(_sealed(parts, schema="minifram.archive/9")), "archive/9"),
    "unknown word": (lambda parts, at: _packed(_sealed(parts, more=1)), "makes no sense"),
    "bad agent": (lambda parts, at: _packed(_sealed(parts, agent="../x")), "agent name"),
    "bad commit": (lambda parts, at: _packed(_sealed(parts, main="main")), "no commit"),
    "bad sum": (lambda parts, at: _packed(_resized(parts, "ledger.jsonl", 9)), "expected 9"),
    "negative": (lambda parts, at: _packed(_resized(parts, "ledger.jsonl", -1)), "make no sense"),
    "other parts": (lambda parts, at: _packed(_sealed(parts | {"x": b""})), "expected"),
    "too large": (lambda parts, at: _packed(_resized(parts, "repository.bundle", 5 << 30)), "too large"),
    "larger than the disk": (lambda parts, at: _packed(_sealed(parts, parts=HUGE)), "free space|damaged"),
    "a header too large": (lambda parts, at: _claims(parts, 1 << 50), "too large"),
    "a header that is not the manifest's": (lambda parts, at: _claims(parts, 1 << 30), "damaged"),
    "unknown name": (lambda parts, at: _packed([*_sealed(parts), ("watcher.json", b"{}")]), "'watcher.json'"),
    "absolute name": (lambda parts, at: _packed([*_sealed(parts), ("/etc/passwd", b"")]), "'/etc/passwd'"),
    "name above": (lambda parts, at: _packed([*_sealed(parts)[:1], ("../x", b"")]), "'../x'"),
    "name here": (lambda parts, at: _packed([*_sealed(parts)[:1], ("./ledger.jsonl", b"")]), "'./ledger.jsonl'"),
    "twice": (lambda parts, at: _packed([*parts.items(), ("minifram.yaml", b"")]), "twice"),
    "manifest twice": (lambda parts, at: _packed([*_sealed(parts), *_sealed(parts)[:1]]), "twice"),
    "missing": (lambda parts, at: _packed(_sealed(parts)[:-1]), "ledger.jsonl is missing"),
    "symbolic link": (lambda parts, at: _with_link(parts, tarfile.SYMTYPE), "as a link"),
    "hard link": (lambda parts, at: _with_link(parts, tarfile.LNKTYPE), "as a link"),
    "directory": (lambda parts, at: _with_link(parts, tarfile.DIRTYPE), "as a link"),
    "FIFO": (lambda parts, at: _with_link(parts, tarfile.FIFOTYPE), "as a link"),
    "device": (lambda parts, at: _with_link(parts, tarfile.CHRTYPE), "as a link"),
    "longer names": (lambda parts, at: _packed([("x" * 200, b"")], tarfile.PAX_FORMAT), "as a link"),
    "longer GNU names": (lambda parts, at: _packed([("x" * 200, b"")], tarfile.GNU_FORMAT), "as a link"),
    "something behind": (lambda parts, at: _packed(list(parts.items())) + b"more", "damaged"),
    "an archive behind": (lambda parts, at: _packed(list(parts.items())) * 2, "goes on"),
    "other content": (lambda parts, at: _packed(list((parts | {"minifram.yaml": _flipped(parts)}).items())), "SHA-256"),
    "wrong settings": (lambda parts, at: _packed(_sealed(parts | {"minifram.yaml": b"sandbx: 1\n"})), "sandbx"),
    "settings in bytes": (lambda parts, at: _packed(_sealed(parts | {"minifram.yaml": b"\xff"})), "UTF-8"),
    "no bundle": (lambda parts, at: _with_bundle(parts, b"hello"), "bundle begins with"),
    "half a bundle": (lambda parts, at: _with_bundle(parts, parts["repository.bundle"][:-40]), "cannot be restored"),
    "a part of history": (lambda parts, at: _prerequisite(parts), "not expected"),
    "a ref twice": (lambda parts, at: _other_ref(parts, b"refs/heads/main"), "not expected"),
    "a ref elsewhere": (lambda parts, at: _other_ref(parts, b"../config"), "not a ref"),
    "a ref that climbs": (lambda parts, at: _other_ref(parts, b"refs/heads/../../config"), "all of its refs"),
    "a ref in the way": (lambda parts, at: _other_ref(parts, b"refs/heads/main/x"), "cannot be restored"),
    "another main": (lambda parts, at: _packed(_sealed(parts, main="1" * 40)), "another than the manifest's"),
    "a commit of nobody's": (lambda parts, at: _made_bundle(parts, at, _nameless), "fsck"),
}
"""What is wrong -> the file, and a part of what the PM reads."""


def _flipped(parts: Parts) -> bytes:
    return parts["minifram.yaml"].replace(b"a", b"b", 1)


def _restored(desk: Desk, content: bytes) -> Ended:
    path = desk.root / "given.tar.gz"
    path.write_bytes(content)
    try:
        return desk.run("restore", str(path))
    finally:
        path.unlink()


def _forget(home: AgentPaths) -> None:
    for place in (home.data, home.state, home.run):
        shutil.rmtree(place, ignore_errors=True)
    shutil.rmtree(os.path.dirname(home.settings), ignore_errors=True)


def test_a_backup_that_was_packed_anew_is_as_good(saved: tuple[Desk, Path]) -> None:
    """The control of all bad ones: what makes them here makes a good one, too."""
    desk, path = saved
    before = _everything(desk)
    for content in (path.read_bytes(), _packed(_sealed(_parts(path))), _packed(list(_parts(path).items()))):
        assert _restored(desk, content).code == 0
        _forget(desk.home())
        assert _everything(desk) == before


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_refused_in_words_and_leaves_nothing(saved: tuple[Desk, Path], tmp_path: Path, kind: str) -> None:
    """The file is named, and what is wrong with it."""
    desk, path = saved
    make, words = BAD[kind]
    before = _everything(desk)

    ended = _restored(desk, make(_parts(path), tmp_path))

    assert ended.code in (1, 2), ended
    assert "given.tar.gz" in ended.err or "free space" in ended.err
    assert any(word in ended.err for word in words.split("|")), ended.err
    assert _everything(desk) == before


def test_what_is_no_file_is_named(saved: tuple[Desk, Path], tmp_path: Path) -> None:
    """Missing, a directory, a FIFO that nobody writes to."""
    desk, _ = saved
    os.mkfifo(tmp_path / "fifo")
    for file, code in ((tmp_path / "missing", 4), (tmp_path, 2), (tmp_path / "fifo", 2)):
        ended = desk.run("restore", str(file))
        assert ended.code == code
        assert str(file) in ended.err


@given(data=st.data())
def test_a_file_that_was_cut_or_changed_anywhere_leaves_nothing(saved: tuple[Desk, Path], data: st.DataObject) -> None:
    """Either it is refused in words and leaves nothing, or it is the agent that was saved; never anything else."""
    desk, path = saved
    content = bytearray(path.read_bytes())
    plainly = data.draw(st.booleans(), label="changed before packing")
    if plainly:
        content = bytearray(gzip.decompress(content))
    if data.draw(st.booleans(), label="cut"):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    for _ in range(data.draw(st.integers(0, 3), label="changes")):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    before = _everything(desk)

    ended = _restored(desk, gzip.compress(content, 1) if plainly else bytes(content))

    if ended.code == 0:
        parts = _parts(path)
        assert desk.main() == json.loads(parts["manifest.json"])["main"]
        assert _bytes(desk.home().settings) == parts["minifram.yaml"]
        assert _bytes(desk.home().places.ledger) == parts["ledger.jsonl"]
        _forget(desk.home())
    else:
        assert ended.code in (1, 2), ended
        assert "given.tar.gz" in ended.err
    assert _everything(desk) == before
