"""`up`, `down`, `restart`, `status`, `doctor` with real rootless containers, whose entrypoint is a stand-in."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.keep.settings.models import KEYS
from tests.cell.loop.waiting import wait_for
from tests.host.container_desk import ENTRYPOINT, WAIT_SECONDS, ContainerDesk, Workshop, a_desk, write_project

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(WAIT_SECONDS)]

KEY = "sk-ant-not-a-real-key"


@pytest.fixture(scope="module")
def made(workshop: Workshop) -> Iterator[ContainerDesk]:
    with a_desk(workshop) as made:
        yield made


@pytest.fixture
def desk(made: ContainerDesk) -> ContainerDesk:
    """One that several tests have in turn, without a container."""
    made.put_away()
    return made


def test_an_agent_lives_in_its_container_from_up_to_down(desk: ContainerDesk) -> None:
    """Up makes everything and waits; status and doctor tell; down leaves the agent's files and nothing else."""
    desk.user.run("git", "-C", desk.home.remote, "pack-refs", "--all")
    up = desk.done("up", "--json").json

    assert (desk.seen()["pid"], desk.seen()["key"]) == (1, 0)
    assert "refs/heads/main" in desk.seen()["refs"]  # which git moved out of refs/
    assert (up["sandbox"], up["branch"]) == ("podman", "main")
    assert up["pid"] == desk.inspected()["State"]["Pid"]
    status = desk.done("status", "--json").json
    assert (status["running"], status["sandbox"]) == (True, "podman")
    again = desk.call("up")
    assert (again.code, "already running" in again.err) == (6, True)
    found = desk.call("doctor", "--json").json["findings"]
    assert not {item["check"] for item in found} & {"container", "watcher"}, found

    down = desk.done("down", "--json").json

    assert down["pid"] == up["pid"]
    assert not desk.is_there()
    assert desk.call("status").code == 3
    assert Path(desk.home.state, "seen.json").exists()
    assert desk.call("down").code == 3


def test_a_start_that_fails_is_told_with_its_reason_and_leaves_nothing(desk: ContainerDesk) -> None:
    """Fail closed: the last words of the seal, or podman's, are the reason, and no key stays; up works again after.
    podman knows no registry here, so a base cannot be pulled either."""
    whole, broken = desk.project, desk.user.directory(f"broken-{desk.agent}")
    write_project(broken)
    (broken / ENTRYPOINT).write_text("#!/no/such/interpreter\n")
    for project, how, code, words in (
        (whole, "# stand-in: refuses", 1, ("ended at once with 5", "the canary was not rejected")),
        (broken, "", 1, ("no such file",)),
        (whole, "podman: {base: no-such-base}", 4, ("podman.base",)),
    ):
        desk.project = project
        desk.settings(f"sandbox: podman\nmodel: {{provider: anthropic}}\n{how}\n")
        up = desk.call("up", ANTHROPIC_API_KEY=KEY)
        assert (up.code, [each in up.err for each in words]) == (code, [True] * len(words)), up
        assert not desk.is_there()
        assert not Path(desk.home.key_file(KEYS[0])).exists()
    desk.behave("works")
    desk.done("up")


def test_a_name_that_others_took_is_left_alone(desk: ContainerDesk) -> None:
    """A container of that name that is not this agent's is named, not removed."""
    desk.podman("create", "--name", desk.container, "--network", "none", desk.user.base(), "true")

    refused = desk.call("up")
    assert (refused.code, desk.container in refused.err) == (6, True)
    assert desk.is_there()
    assert desk.call("down").code == 6


def test_up_works_over_what_a_broken_start_left(desk: ContainerDesk) -> None:
    """A killed container, one that was made and never started, an old key."""
    desk.done("up")
    desk.podman("kill", desk.container)
    wait_for(lambda: desk.inspected()["State"]["Status"] == "exited", "its end")
    assert desk.call("status").code == 3
    assert "container" in {item["check"] for item in desk.call("doctor", "--json").json["findings"]}
    desk.done("up")
    assert desk.call("down").code == 0

    label = f"--label=minifram.home={desk.home.data}"
    desk.podman("create", "--name", desk.container, label, "--network", "none", desk.user.base(), "true")
    desk.done("up")


@pytest.mark.attack("S47")
def test_a_new_version_of_the_project_is_a_new_image_which_is_always_the_same(desk: ContainerDesk) -> None:
    """Restart builds before it stops: nothing is stopped for an image that cannot be built. What is unchanged is found
    again and nothing is built. Same inputs, same id: nothing in an image depends on when, where or how often it was
    built."""
    desk.done("up")
    assert "building" not in desk.done("restart").err
    pid, image = desk.inspected()["State"]["Pid"], desk.inspected()["ImageName"]
    desk.project = desk.user.directory(f"newer-{desk.agent}")
    write_project(desk.project, **{"newer.py": f"VERSION = '{desk.agent}'\n"})
    recipe = desk.project / "Containerfile"
    good = recipe.read_text()
    recipe.write_text(f"{good}RUN echo no such luck >&2; exit 3\n")

    restarted = desk.call("restart")

    assert (restarted.code, "could not be built" in restarted.err) == (1, True), restarted
    assert desk.inspected()["State"]["Pid"] == pid
    recipe.write_text(good)
    assert "building the image" in desk.done("restart").err
    newer = desk.inspected()["ImageName"]
    assert newer != image
    built = desk.podman("image", "inspect", "--format={{.Id}}", newer)
    desk.done("down")
    desk.podman("rmi", newer)
    assert "building the image" in desk.done("up").err
    assert desk.podman("image", "inspect", "--format={{.Id}}", newer) == built
    desk.done("down")
    desk.podman("rmi", newer)


@pytest.mark.fault("F84")
def test_a_restart_whose_image_does_not_serve_goes_back(desk: ContainerDesk) -> None:
    """Whether its container ends at once or its agent does not work in time; the key is still there."""
    desk.settings("sandbox: podman\nmodel: {provider: anthropic}\n")
    desk.done("up", ANTHROPIC_API_KEY=KEY)
    before = desk.inspected()["ImageName"]
    for behaviour in ("refuses", "hangs"):
        desk.project = desk.user.directory(f"newer-{behaviour}-{desk.agent}")
        write_project(desk.project)
        entrypoint = desk.project / ENTRYPOINT
        text = entrypoint.read_text()
        line = 'return how[1] if how else "works"'
        assert line in text
        entrypoint.write_text(text.replace(line, f'return "{behaviour}"'))

        restarted = desk.call("restart", "--timeout", "8")

        assert restarted.code == 8, restarted
        assert f"{before} is started again" in restarted.err
        assert desk.inspected()["ImageName"] == before
        assert desk.seen()["key"] == len(KEY)
    assert Path(desk.home.key_file(KEYS[0])).is_relative_to(desk.user.runtime_dir)
    assert KEY not in json.dumps(desk.inspected())
    assert desk.call("status").code == 0


def test_down_ends_a_container_whatever_its_watcher_does(desk: ContainerDesk) -> None:
    """One that is deaf is killed at the deadline; after Ctrl-C, no other up touches one that never took the lock."""
    desk.behave("deaf")
    desk.done("up")
    down = desk.done("down", "--timeout", "1")
    assert "was killed" in down.err
    assert not desk.is_there()

    desk.behave("unlocked")
    with desk.spawn("up") as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "waiting for the seal" in line:
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130

    again = desk.call("up")
    assert (again.code, "minifram down" in again.err) == (6, True)
    assert desk.inspected()["State"]["Running"]
    desk.done("down", "--timeout", "5")


@pytest.mark.attack("S47")
def test_the_pm_s_containers_conf_does_not_widen_it(desk: ContainerDesk) -> None:
    """What it gives to all containers, mounts and devices too, is not given to this one."""
    conf = desk.user.put(
        f"containers-{desk.agent}.conf",
        '[containers]\nenv = ["LEAKED=1"]\ndefault_capabilities = ["SYS_ADMIN"]\ninit = true\n'
        'volumes = ["/etc:/leak"]\ndevices = ["/dev/zero:/dev/leak"]\n'
        'ipcns = "host"\npidns = "host"\nutsns = "host"\nnetns = "host"\nuserns = "auto"\n',
    )
    desk.done("up", CONTAINERS_CONF=str(conf))

    seen = desk.seen()

    assert "LEAKED" not in seen["environ"]
    assert "leak" not in seen["mounts"]
    assert "no" in desk.podman("exec", desk.container, "sh", "-c", "test -e /dev/leak || echo no")
    assert (seen["pid"], seen["interfaces"]) == (1, ["lo"])
    own = ("--network=none", "--pid=private", "--ipc=private", "--uts=private", "--userns=host", "--init=false")
    words = ["run", "--rm", *own, "--entrypoint=sh"]
    command = desk.user.command(*words, desk.inspected()["ImageName"], "-c", "env; mount")
    plain = desk.user.run("env", f"CONTAINERS_CONF={conf}", *command)
    assert "LEAKED" in plain.stdout  # the file does what it says to a container that is not sealed
    assert "/leak" in plain.stdout


def test_a_tree_of_the_other_sandbox_is_refused(desk: ContainerDesk) -> None:
    """Whoever edits the settings' one line: neither sandbox takes over what the other left, and the words say how the
    PM gives it over; `down` looks at both."""
    desk.done("up")
    desk.settings("sandbox: process\nmodel: {provider: scripted}\n")
    desk.done("down")
    assert not desk.is_there()
    unsealed = desk.call("up")
    assert (unsealed.code, "must not get your rights" in unsealed.err) == (6, True)

    desk.podman("unshare", "chown", "-R", "0:0", desk.home.places.bot)
    desk.behave("works")
    sealed = desk.call("up")
    assert (sealed.code, "podman unshare chown -R 1000:1000" in sealed.err) == (6, True)
    desk.podman("unshare", "chown", "-R", "1000:1000", desk.home.places.bot)
    desk.done("up")
