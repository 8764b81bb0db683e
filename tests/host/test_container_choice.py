"""Which sandbox an agent gets, with podmans that were written for the test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from host.container.choice import Choice, choose, podman_at_hand
from host.container.podman import PodmanError, call, environment
from host.context import Context
from host.errors import CommandError
from tests.host.desk import Desk
from tests.host.test_container_machine import GOOD, INFO, a_podman

PM = 1001


@pytest.fixture
def usable(tmp_path: Path) -> Context:
    """A PM whose podman can be used."""
    return _caller(tmp_path / "usable", json.dumps(INFO | {"store": {"graphDriverName": "overlay"}}))


@pytest.fixture
def unusable(tmp_path: Path) -> Context:
    """A PM whose podman does not work."""
    return _caller(tmp_path / "unusable", "Error: no such luck", 125)


def _caller(directory: Path, says: str, status: int = 0) -> Context:
    environ = a_podman(directory, says, status)
    # So that what podman needs beside itself is there wherever this test runs.
    for program in ("runc", "slirp4netns"):
        (directory / program).write_text("#!/bin/sh\n")
        (directory / program).chmod(0o755)
    return Context(environ, PM, str(directory), ("never",))


def test_the_process_sandbox_asks_podman_nothing(unusable: Context) -> None:
    """Whatever came before."""
    assert choose(unusable, "process", True).sandbox == "process"


def test_auto_is_podman_where_it_works(usable: Context) -> None:
    """And asking for it is the same."""
    for asked in ("auto", "podman"):
        assert choose(usable, asked, False, lambda *_: GOOD) == Choice("podman", machine=GOOD)
        assert choose(usable, asked, True, lambda *_: GOOD).sandbox == "podman"


def test_auto_says_why_it_is_less(unusable: Context) -> None:
    """The PM should know what stands between the agent and its container."""
    chosen = choose(unusable, "auto", False)

    assert chosen.sandbox == "process"
    assert "no such luck" in chosen.why


def test_auto_never_starts_unsealed_what_was_sealed(unusable: Context) -> None:
    """What is in the agent's tree was written by somebody who is not to be trusted with the PM's rights."""
    with pytest.raises(CommandError, match="ran in the sealed container before") as refused:
        choose(unusable, "auto", True)
    assert refused.value.code == 5
    assert choose(unusable, "auto", False).sandbox == "process"


def test_who_asks_for_podman_and_cannot_have_it_is_told_all_that_is_missing(unusable: Context, usable: Context) -> None:
    """With an exit code for each kind."""
    with pytest.raises(CommandError, match="no such luck") as refused:
        choose(unusable, "podman", False)
    assert refused.value.code == 1

    old = INFO | {"version": {"Version": "3.4.1"}, "host": {**INFO["host"], "idMappings": None}}
    (Path(usable.environ["PATH"]) / "podman.words").write_text(json.dumps(old))
    with pytest.raises(CommandError, match=r"podman is 3\.4(.|\n)*--add-subuids"):
        choose(usable, "podman", False)

    with pytest.raises(CommandError, match="you are root") as refused:
        choose(usable._replace(uid=0), "podman", False)
    assert refused.value.code == 2


def test_an_agent_in_a_container_cannot_be_ended_without_podman(unusable: Context, usable: Context) -> None:
    """The words say what has to be mended."""
    assert podman_at_hand(usable).program.startswith(usable.environ["PATH"])
    with pytest.raises(CommandError, match="lives in a container") as refused:
        podman_at_hand(unusable)
    assert refused.value.code == 4


def test_podman_gets_no_secret_and_no_other_podman_s_address() -> None:
    """What it needs to find its own places, and no more; what fetches something gets the way to the outside."""
    given = {
        "HOME": "/home/pm",
        "PATH": "/bin",
        "ANTHROPIC_API_KEY": "sk",
        "CONTAINER_HOST": "ssh://elsewhere",
        "https_proxy": "http://proxy.invalid",
        "PIP_INDEX_URL": "http://index.invalid",
        "XDG_RUNTIME_DIR": "/run/user/1",
    }
    plain = environment(given)

    assert set(plain) == {"HOME", "PATH", "LANG", "XDG_RUNTIME_DIR", "GOGC"}
    assert plain["PATH"].startswith("/bin:")
    assert plain["PATH"].endswith("/sbin")
    assert set(environment(given, fetching=True)) - set(plain) == {"https_proxy", "PIP_INDEX_URL"}


def test_a_call_has_a_deadline_and_ends_with_all_that_it_started(tmp_path: Path) -> None:
    """Nothing is left running, and the reason says how long it had."""
    script = f"sleep 60 & echo $! >{tmp_path}/pid; wait"
    with pytest.raises(PodmanError, match="not ended within") as ended:
        call(("sh", "-c", script), {"PATH": "/usr/bin:/bin"}, seconds=0.3)
    assert ended.value.status == 124
    pid = (tmp_path / "pid").read_text().strip()
    status = Path(f"/proc/{pid}/stat")
    assert not status.exists() or status.read_text().split()[2] == "Z"
    with pytest.raises(PodmanError, match="cannot be run") as missing:
        call(("no-such-program",), {"PATH": "/usr/bin:/bin"})
    assert missing.value.status == 127


def test_a_long_call_says_that_it_goes_on_and_takes_its_input_once() -> None:
    """What it prints is whole all the same."""
    spent: list[float] = []
    text = b"x" * 65_536
    said = call(("sh", "-c", "sleep 0.4; wc -c"), {"PATH": "/usr/bin:/bin"}, text, 30, spent.append, tell_seconds=0.1)

    assert said.strip() == "65536"
    assert len(spent) >= 2


def test_up_as_root_takes_the_process_sandbox_or_refuses(desk: Desk) -> None:
    """Root in a container of root's would be root outside; for anybody else this test asks nothing of podman."""
    root = desk.context()._replace(uid=0)

    assert choose(root, "auto", False).sandbox == "process"
    with pytest.raises(CommandError, match="ordinary user"):
        choose(root, "podman", False)


def test_an_agent_that_was_sealed_is_not_offered_a_life_without_isolation(unusable: Context) -> None:
    """Whatever podman lacks here; for one that never was sealed the process sandbox is named."""
    for asked in ("auto", "podman"):
        with pytest.raises(CommandError) as refused:
            choose(unusable, asked, True)
        assert "no such luck" in str(refused.value)
        assert "--sandbox process" not in str(refused.value)
    with pytest.raises(CommandError, match="--sandbox process"):
        choose(unusable, "podman", False)
