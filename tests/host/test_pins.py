"""Pinned versions as the PM sees them, and `minifram retry`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from host.agent import pins
from host.repository import open as bare
from infra.keep.supervision.versions import version_of
from infra.shared import watcher_file
from infra.shared.control import RETRY_REF
from infra.shared.repository.git import Git
from infra.shared.signals import Signal, SignalName, write_signal
from infra.shared.watcher_file import BootRecord, SignalRequest, Version, WatcherFile
from tests.host.desk import PROJECT, Desk, Ended, wait_for
from tests.keep.supervision.agents import RUNNER

AT = "2026-01-31T10:42:12.345Z"


def remember(desk: Desk, **fields: object) -> WatcherFile:
    """What the last watcher wrote; it had seen main as it is now."""
    seen = version_of(desk.git(), desk.main())
    boot = BootRecord(id="0" * 32, branch="main", commit=seen.commit, reason="start", started_at=AT, level="last good")
    told = {"phase": watcher_file.RUNNING, "main": seen, "boots": (boot,), "since": AT} | fields
    state = WatcherFile(**told)  # type: ignore[arg-type]
    Path(desk.home().places.watcher_state).write_bytes(watcher_file.encode(state))
    return state


def pin(desk: Desk, why: str = "it died after SUCCESS: SIGKILL", **fields: str) -> watcher_file.Pin:
    """A pin of main as it is now, unless `fields` say otherwise."""
    seen = version_of(desk.git(), desk.main())
    made: dict[str, Any] = {"version": seen.id, "commit": seen.commit, "branch": "main", "why": why, "at": AT} | fields
    return watcher_file.Pin(**made)


def warned(desk: Desk) -> list[str]:
    results = desk.run("doctor", "--json").json["results"]
    return [each["text"] for each in results if each["check"] == "main" and each["level"] == "warn"]


def retry_refs(desk: Desk) -> str:
    return desk.git()("for-each-ref", "--format=%(refname)", "refs/minifram/")


def test_with_nothing_pinned_retry_says_so_and_changes_nothing(desk: Desk) -> None:
    """0, whether a watcher has ever written anything or not."""
    for _ in range(2):
        ended = desk.done("retry")
        assert "nothing is pinned" in ended.out
        assert desk.done("retry", "--json").json["asked"] is False
        assert retry_refs(desk) == ""
        remember(desk)


def test_with_nobody_running_it_is_taken_at_the_next_start(desk: Desk) -> None:
    """The ref is made at main's commit, also where one lies packed, which no watcher sees; status tells of it."""
    remember(desk, pins=(pin(desk),))
    assert "requested, applied" not in desk.run("status").out
    for _ in range(2):
        ended = desk.done("retry")
        assert f"pinned  main@{desk.main()[:12]} since {AT}: it died" in ended.out
        assert "at the next start: 'minifram up'" in ended.err
        assert Path(desk.home().remote, RETRY_REF).read_text() == f"{desk.main()}\n"
        desk.git()("pack-refs", "--all")
        assert not Path(desk.home().remote, RETRY_REF).exists()
    desk.done("retry")
    assert "requested, applied at the next start" in desk.run("status").out

    found = desk.done("retry", "--json").json
    assert found.keys() == {"schema", "rung", *pins.Retried._fields}
    assert found["schema"] == "minifram.retry/1"
    assert (found["asked"], found["running"], found["taken"]) == (True, False, False)
    assert found["pins"] == [{**pin_json(desk), "is_main": True}]


def pin_json(desk: Desk) -> dict[str, object]:
    return {"branch": "main", "commit": desk.main(), "at": AT, "why": "it died after SUCCESS: SIGKILL"}


def test_a_watcher_that_does_not_take_it_is_not_waited_for_for_ever(desk: Desk) -> None:
    """The stand-in never looks: the ref stays, and nothing claims to be taken."""
    assert desk.call("up").code == 0
    remember(desk, pins=(pin(desk),))
    git = bare.open_repository(desk.home())

    done = pins.retry_pinned(desk.home(), git, 0.2)

    assert (done.asked, done.running, done.taken) == (True, True, False)
    assert pins.is_asked(desk.home())


def test_an_unreadable_memory_is_a_trouble_in_words(desk: Desk) -> None:
    """What is pinned is not known then, and nothing is asked for."""
    Path(desk.home().places.watcher_state).write_text("garbage")

    ended = desk.run("retry")

    assert ended.code == 1
    assert "cannot be told" in ended.err
    assert retry_refs(desk) == ""


def test_a_repository_that_was_tampered_with_is_not_written_to(desk: Desk) -> None:
    """As with every verb."""
    remember(desk, pins=(pin(desk),))
    outside = desk.root / "outside"
    outside.mkdir()
    Path(desk.home().remote, "refs/minifram").symlink_to(outside)

    assert desk.run("retry").code == 5
    assert list(outside.iterdir()) == []


def test_a_plain_push_of_the_pm_does_the_same(desk: Desk) -> None:
    """By path, past the repository's own guard and settings; twice, as the watcher removes it in between."""
    assert desk.call("up").code == 0  # which puts the guard
    clone = desk.root / "clone"
    subprocess.run(["git", "clone", "-q", desk.home().remote, clone], check=True)
    for _ in range(2):
        subprocess.run(["git", "-C", clone, "push", "-q", "origin", f"main:{RETRY_REF}"], check=True)
        assert Path(desk.home().remote, RETRY_REF).read_text() == f"{desk.main()}\n"
        assert pins.is_asked(desk.home())
        Git(desk.home().remote)("update-ref", "--no-deref", "-d", RETRY_REF)


def test_status_says_who_leads_instead_of_a_pinned_main(desk: Desk) -> None:
    """Since when and why; the newest pins, a line each; what was not told yet."""
    assert desk.call("up").code == 0
    tips = {number: desk.branch(f"try-{number}", {"notes": f"{number}"}) for number in range(7)}
    others = tuple(
        pin(desk, f"reason {number}\nmore", version=f"branch-{number}", branch=f"try-{number}", commit=commit)
        for number, commit in tips.items()
    )
    told = watcher_file.Report(id="x", at=AT, title="watcher: x", text="x")
    leading = {"branch": "main", "commit": desk.main(), "boot_id": "0" * 32, "level": "last good"}
    remember(desk, pins=(*others, pin(desk)), untold=(told, told), **leading)

    out = desk.done("status").out

    because = f"main at {desk.main()[:12]} is pinned since {AT} because it died after SUCCESS: SIGKILL"
    assert f"last good: {because}" in out
    assert f"main@{desk.main()[:12]} since {AT}: it died" in out
    assert [f"reason {number}" in out for number in range(7)] == [False] * 3 + [True] * 4
    assert "more\n" not in out
    assert "and 3 more" in out
    assert "2 reports of the watcher's not in COMMS.md yet" in out
    assert "'minifram retry'" in out
    found = desk.done("status", "--json").json
    assert (found["level"], found["untold"], found["retry_asked"]) == ("last good", 2, False)
    assert [each["branch"] for each in found["pins"]] == ["main", *(f"try-{number}" for number in range(6, -1, -1))]
    assert [each["is_main"] for each in found["pins"]] == [True] + [False] * 7

    remember(desk, pins=(pin(desk),), **(leading | {"level": "safe mode"}))
    assert f"safe mode: {because}" in desk.done("status").out
    remember(desk, **leading)
    assert "last good: main becomes active at its next start" in desk.done("status").out
    remember(desk, **(leading | {"level": "main"}))
    plain = desk.done("status").out
    assert "active     main\n" in plain
    assert "pinned" not in plain
    assert "not in COMMS.md" not in plain
    remember(desk, **(leading | {"level": "branch", "branch": "improve"}))
    assert "active     branch improve\n" in desk.done("status").out


def test_a_main_that_holds_another_version_is_not_pinned(desk: Desk) -> None:
    """Reports change no version; a push while no watcher looks does, and is believed."""
    remember(desk, pins=(pin(desk),))
    desk.report("something")
    assert desk.run("status", "--json").json["pins"][0]["is_main"] is True
    assert len(warned(desk)) == 1
    desk.branch("main", {"infra/runner.py": "mended\n"})
    assert desk.run("status", "--json").json["pins"] == []
    assert "pinned" not in desk.run("status").out
    assert warned(desk) == []


def test_a_branch_is_pinned_as_long_as_it_is_what_failed(desk: Desk) -> None:
    """Not when it was mended, merged or taken away; a commit to its page mends nothing."""
    failed = desk.branch("try", {"infra/runner.py": "broken\n"})
    remember(desk, pins=(pin(desk, version="branch-1", branch="try", commit=failed),))

    def shown() -> bool:
        assert bool(desk.run("status", "--json").json["pins"]) is ("pinned" in desk.run("status").out)
        return bool(desk.run("status", "--json").json["pins"])

    assert shown()
    desk.branch("try", {"COMMS.md": "words\n"}, start="try")
    assert shown()
    tip = desk.branch("try", {"infra/runner.py": "mended\n"}, start="try")
    assert not shown()
    git = desk.git()
    git("update-ref", "refs/heads/try", failed)
    assert shown()
    git("update-ref", "-d", "refs/heads/try")
    assert not shown()
    git("update-ref", "refs/heads/try", failed)
    git("update-ref", "refs/heads/main", tip)
    assert not shown()


def test_a_pinned_stand_in_is_shown_while_it_is_passed_over(desk: Desk) -> None:
    """That explains who leads; where main itself is led, it is not news."""
    good = Version(commit=desk.main(), id="good")
    of_good = pin(desk, "it died too", version="good")
    remember(desk, pins=(of_good, pin(desk)), known_good=(good,))
    assert "it died too" in desk.run("status").out
    remember(desk, pins=(of_good,), known_good=(good,))
    assert "pinned" not in desk.run("status").out


def test_what_the_pm_took_back_is_asked_for_by_retry(desk: Desk) -> None:
    """Though nothing is pinned; and it is not offered as what to roll back to."""
    good, older = Version(commit="a" * 40, id="good"), Version(commit="b" * 40, id="older")
    remember(desk, pins=(pin(desk),), known_good=(good, older), withdrawn=("good",))
    assert f"minifram rollback {'b' * 12}" in warned(desk)[0]
    remember(desk, known_good=(good,), withdrawn=("good", "unknown"), pardoned=("good",))
    assert "nothing is pinned" in desk.done("retry").out
    remember(desk, known_good=(good,), withdrawn=("good",))
    ended = desk.done("retry")
    assert f"back    main@{'a' * 12}, which you revoked" in ended.out
    assert pins.is_asked(desk.home())


def test_safe_mode_is_called_safe_mode(desk: Desk) -> None:
    """And the commit that is shown is that of what runs: none of main's, then; nor of what ran before, while nobody
    leads."""
    assert desk.call("up").code == 0
    leading = {"branch": "main", "commit": desk.main(), "boot_id": "0" * 32, "level": "safe mode"}
    remember(desk, pins=(pin(desk),), **leading)
    out = desk.done("status").out
    assert "version    safe mode: the code of this program, in the clone of main\n" in out
    assert "version    last: main @" not in out
    remember(desk, phase=watcher_file.WAITING)
    assert f"version    last: main @ {desk.main()[:12]}" in desk.done("status").out
    assert desk.done("status", "--json").json["is_led"] is False
    remember(desk, make_way_by=AT, **(leading | {"level": "branch", "branch": "improve"}))
    assert f"main has other code ({desk.main()[:12]}), it is next, at {AT} at the latest" in desk.done("status").out


def test_a_commit_that_is_gone_or_none_pins_nothing_that_is_there(desk: Desk) -> None:
    """Words of the state file name objects to git and nothing else."""
    for commit in ("0" * 40, "--output=x", "", "main"):
        remember(desk, main=Version(commit=commit, id="x"), pins=(pin(desk, version="x", commit=commit),))
        ended = desk.run("status")
        assert ended.code == 3, ended
    assert not Path(desk.home().remote, "x").exists()


def test_what_is_prepared_is_named(desk: Desk) -> None:
    """The branch that was asked for; who waits is told when the next try is."""
    assert desk.call("up").code == 0
    asked = SignalRequest(name=SignalName.BOOTSTRAP.value, target="improve", identity="1")
    remember(desk, phase="preparing", request=asked)
    assert "preparing improve: its environment or its rehearsal" in desk.done("status").out
    assert desk.done("status", "--json").json["preparing"] == "improve"
    remember(desk, phase="preparing")
    assert "preparing main" in desk.done("status").out
    remember(desk, phase=watcher_file.WAITING, until="2999-01-01T00:00:00.000Z", request=asked)
    waiting = desk.done("status").out
    assert "waiting" in waiting
    assert "next launch in" in waiting
    assert "preparing" not in waiting


def test_what_is_pinned_cannot_steer_the_screen(desk: Desk) -> None:
    """The reason is the agent's last words, the branch its choice: spelled out, one line, bounded."""
    evil = pin(desk, "\x1b[2J\u202eback " + "x" * 5000)
    remember(desk, pins=(evil, pin(desk, branch="\x1b]0;t\x07" + "y" * 500)))
    for words in (("status",), ("doctor",), ("retry",)):
        ended = desk.run(*words)
        assert not {"\x1b", "\u202e", "\x07"} & set(ended.out + ended.err), words
        assert "\\u202e" in ended.out, words
        assert max(map(len, ended.out.splitlines())) < 700, words


def test_doctor_warns_of_a_pinned_main_and_of_safe_mode(desk: Desk) -> None:
    """With what to do; a branch that is pinned is nothing to warn of."""
    good = Version(commit="a" * 40, id="good")
    remember(desk, pins=(pin(desk),), known_good=(good,))
    [found] = warned(desk)
    for words in ("it died after SUCCESS", "last good is next", f"minifram rollback {'a' * 12}", "minifram retry"):
        assert words in found
    remember(desk, pins=(pin(desk), pin(desk, version="good")), known_good=(good,))
    [found] = warned(desk)
    assert "safe mode is next" in found
    assert "rollback" not in found
    remember(desk, pins=(pin(desk, version="branch-1", branch="try"),))
    assert warned(desk) == []

    assert desk.call("up").code == 0
    leading = {"branch": "main", "commit": desk.main(), "boot_id": "0" * 32, "level": "safe mode"}
    remember(desk, pins=(pin(desk),), known_good=(good,), **leading)
    assert "safe mode is active instead" in warned(desk)[0]
    remember(desk, **leading)
    assert "minifram restart" in warned(desk)[0]
    remember(desk, **(leading | {"level": "last good"}))
    assert warned(desk) == []


def real(desk: Desk, *words: str) -> Ended:
    """The command with the real watcher, from this project."""
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); import host.cli; sys.exit(host.cli.main())"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(PROJECT), *words],
        env=desk.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        out, err = process.communicate(timeout=90)
    return Ended(process.returncode, out, err)


@pytest.fixture
def living(desk: Desk) -> Iterator[Desk]:
    """An agent of the real watcher's, whose main serves and has shown that it can."""
    run = tempfile.mkdtemp(prefix="mf-")  # a socket's path must be short
    desk.environ["XDG_RUNTIME_DIR"] = run
    Path(desk.home().settings).write_text(
        "sandbox: process\nlimits: {grace_seconds: 1, boot_seconds: 5, probation_seconds: 0.5}\n"
    )
    desk.branch("main", {"infra/runner.py": RUNNER, "behaviour": "serve()"})
    try:
        up = real(desk, "up")
        assert up.code == 0, up
        wait_for(lambda: state_of(desk).known_good)
        yield desk
    finally:
        real(desk, "down")
        shutil.rmtree(run, ignore_errors=True)


def state_of(desk: Desk) -> WatcherFile:
    return watcher_file.decode(Path(desk.home().places.watcher_state).read_bytes())


@pytest.mark.heavy
def test_the_real_watcher_takes_it(living: Desk) -> None:
    """A bad main is pinned and the last good one leads; after `retry`, while it runs or before it starts, none is."""
    good = living.main()
    bad = living.branch("main", {"infra/runner.py": "raise SystemExit(3)\n"})
    write_signal(living.home().places.signals, Signal(SignalName.BOOTSTRAP, "main"))
    wait_for(lambda: (state_of(living).phase, state_of(living).level) == ("running", "last good"))
    shown = real(living, "status").out
    [failed] = state_of(living).pins
    assert living.git().ok("merge-base", "--is-ancestor", bad, failed.commit)
    assert f"last good: main at {failed.commit[:12]} is pinned since {failed.at} because {failed.why}" in shown
    assert "it is next" not in shown, "a pinned main is not"
    assert f"minifram rollback {good[:12]}" in real(living, "doctor").out

    ended = real(living, "retry")

    assert ended.code == 0, ended
    assert "taken" in ended.out
    assert "main is retried now" in ended.err
    assert not os.path.exists(f"{living.home().remote}/{RETRY_REF}")
    assert "nothing is pinned" in real(living, "retry").out

    restarted = real(living, "restart")
    assert restarted.code == 0, restarted
    assert "(last good)" in restarted.err, "main was tried again, and failed again"
    assert [each.version for each in state_of(living).pins] == [failed.version]
    assert real(living, "down").code == 0
    assert "at the next start" in real(living, "retry").err
    assert real(living, "up").code == 0
    wait_for(lambda: not pins.is_asked(living.home()))
    wait_for(lambda: [each.at > failed.at for each in state_of(living).pins] == [True])
