"""`up`, `down`, `restart`, `status`, `doctor` with real rootless containers, whose entrypoint is a stand-in."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from host.container.inspection import differences
from host.container.words import Image, sealing, secret_name
from infra.shared.providers import KEYS
from infra.shared.settings_file import read_settings
from tests.host.container_desk import ENTRYPOINT, WAIT_SECONDS, ContainerDesk, Workshop, a_desk, write_project
from tests.host.desk import wait_for

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(WAIT_SECONDS)]

KEY = "sk-ant-not-a-real-key"


@pytest.fixture
def desk(workshop: Workshop) -> Iterator[ContainerDesk]:
    with a_desk(workshop) as ready:
        yield ready


@pytest.fixture(scope="module")
def looked_at(workshop: Workshop) -> Iterator[ContainerDesk]:
    """One that is up with a key, for tests that only look."""
    with a_desk(workshop) as ready:
        ready.settings("sandbox: podman\nmodel: {provider: anthropic}\n")
        ready.done("up", ANTHROPIC_API_KEY=KEY)
        yield ready


def test_an_agent_lives_in_its_container_from_up_to_down(desk: ContainerDesk) -> None:
    """Up makes everything and waits; status and doctor tell; down leaves the agent's files and nothing else."""
    up = desk.done("up", "--json").json

    assert (up["sandbox"], up["branch"]) == ("podman", "main")
    assert up["pid"] == desk.inspected()["State"]["Pid"]
    status = desk.done("status", "--json").json
    assert (status["running"], status["sandbox"], status["pid"]) == (True, "podman", up["pid"])
    again = desk.call("up")
    assert (again.code, str(up["pid"]) in again.err) == (6, True)
    checks = {item["check"]: item for item in desk.call("doctor", "--json").json["results"]}
    assert checks["container"]["level"] == checks["watcher"]["level"] == "ok", checks

    down = desk.done("down", "--json").json

    assert down["pid"] == up["pid"]
    assert not desk.is_there("container", desk.names.container)
    assert desk.is_there("volume", desk.names.bot)
    assert desk.call("status").code == 3
    assert Path(desk.home.state, "seen.json").exists()
    assert desk.call("down").code == 3
    desk.done("up")


def test_the_container_is_what_was_asked_for(looked_at: ContainerDesk) -> None:
    """The runtime's orders have no difference to the sealing; and one is found when something else was asked for."""
    told = looked_at.inspected()
    orders = json.loads(looked_at.user.run("cat", told["OCIConfigPath"]).stdout)
    profile = json.loads((looked_at.project / "podman/seccomp.json").read_text())
    settings, image = read_settings(looked_at.home.settings), Image(told["ImageName"], "any")
    asked = sealing(looked_at.home, settings, looked_at.machine(), image, str(looked_at.project), KEYS[:1], "none")

    assert differences(asked, orders, profile) == []
    for other in (
        asked._replace(binds=asked.binds[1:]),
        asked._replace(secrets=()),
        asked._replace(limits=asked.limits._replace(open_files=7)),
    ):
        assert differences(other, orders, profile) != []
    assert differences(asked, orders, profile | {"syscalls": []}) != []


def test_inside_it_is_as_tight_as_it_looks_from_outside(looked_at: ContainerDesk) -> None:
    """Seen by its own first process: rights, mounts, limits, environment; what must be writable is."""
    seen = looked_at.seen()
    status = dict(line.split(":\t", 1) for line in seen["status"].splitlines() if ":\t" in line)

    assert seen["pid"] == 1
    rights = 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 12  # kill, setgid, setuid, setpcap, net_admin
    assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")} == {rights}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert set(seen["environ"]) <= {"PATH", "LANG", "HOME", "HOSTNAME", "container", "TERM", "PWD", "LC_CTYPE"}
    assert seen["words"][:2] == ["--settings=/etc/minifram/minifram.yaml", "--upstream=10.0.2.3"]
    assert all(word.startswith("--host=") for word in seen["words"][2:]), "a machine may stand in public networks"
    places = {path: (place["mode"], place["uid"]) for path, place in seen["places"].items()}
    assert places["/mnt/remote"] == (0o700, 0)
    assert places["/run/minifram"] == (0o711, 0)
    assert places["/run/minifram/secrets/anthropic_api_key"] == (0o400, 0)
    assert places["/bot"] == (0o755, 1000)
    assert (places["/tmp"], places["/var/lib/minifram"][1]) == ((0o1777, 0), 0)
    written = seen["written"]
    assert {path for path, problem in written.items() if problem == "Read-only file system"} == {
        *("/x", "/etc/x", "/run/x", "/opt/x"),
        *("/mnt/remote/config", "/mnt/remote/HEAD", "/etc/minifram/minifram.yaml"),
    }
    assert [written[path] for path in ("/mnt/remote/objects/x", "/mnt/remote/refs/x", "/run/minifram/x")] == [""] * 3
    assert seen["key"] == len(KEY)
    assert seen["interfaces"] == ["lo"]
    mounts = {row[1]: row[3].split(",") for row in map(str.split, seen["mounts"].splitlines())}
    for path in ("/mnt/remote", "/mnt/remote/objects", "/mnt/remote/refs", "/run/minifram", "/var/tmp"):
        assert {"nosuid", "nodev", "noexec"} <= set(mounts[path]), path
    for path in ("/bot", "/tmp", "/examination", "/var/lib/minifram"):
        assert {"nosuid", "nodev"} <= set(mounts[path]), path
        assert "noexec" not in mounts[path], path
    limits = {line[:26].strip(): line[26:].split()[:2] for line in seen["limits"].splitlines()}
    assert limits["Max core file size"] == ["0", "0"]
    assert limits["Max processes"] == ["1280", "1280"]


def test_the_cell_s_user_has_its_own_tree_and_nothing_else(looked_at: ContainerDesk) -> None:
    """It writes /bot, which the PM can read; repository, state, key and settings are closed to it."""

    assert looked_at.seen()["as_agent"] == {
        "/bot/from-inside": "",
        "/mnt/remote/objects/x": "Permission denied",
        "/var/lib/minifram/x": "Permission denied",
        "read /mnt/remote/HEAD": "denied",
        "read /run/minifram/secrets/anthropic_api_key": "denied",
        "read /etc/minifram/minifram.yaml": "denied",
        "read /etc/passwd": "",
    }
    made = Path(looked_at.home.places.bot, "from-inside")
    assert made.stat().st_uid == looked_at.machine().host_uid(1000)
    assert looked_at.user.run("test", "-r", str(made.parent)).returncode == 0


def test_the_key_is_podman_s_secret_while_the_agent_is_up(desk: ContainerDesk) -> None:
    """In no argument, label, variable or file that inspecting shows; gone with the agent, carried over a restart."""
    desk.settings("sandbox: podman\nmodel: {provider: anthropic}\n")

    missing = desk.call("up")
    assert (missing.code, "ANTHROPIC_API_KEY" in missing.err) == (4, True)
    up = desk.done("up", ANTHROPIC_API_KEY=KEY)

    assert desk.is_there("secret", secret_name(desk.agent, KEYS[0]))
    assert KEY not in up.out + up.err + json.dumps(desk.inspected()) + desk.podman(
        "secret", "inspect", secret_name(desk.agent, KEYS[0])
    )
    assert KEY not in Path(desk.home.started_file).read_text()
    assert desk.done("status", "--json").json["model"].startswith("anthropic")
    desk.done("restart")
    assert desk.seen()["key"] == len(KEY)
    desk.done("down")
    assert not desk.is_there("secret", secret_name(desk.agent, KEYS[0]))
    desk.settings("sandbox: podman\n")
    desk.done("up")
    assert desk.seen()["key"] == 0


def test_a_container_that_refuses_is_told_with_its_reason_and_leaves_nothing(desk: ContainerDesk) -> None:
    """Fail closed: the last words of the seal are the reason, and no key stays."""
    desk.settings("sandbox: podman\nmodel: {provider: anthropic}\n# stand-in: refuses\n")

    up = desk.call("up", ANTHROPIC_API_KEY=KEY)

    assert up.code == 1, up
    assert "ended at once with 5" in up.err
    assert "the canary was not rejected" in up.err
    assert not desk.is_there("container", desk.names.container)
    assert not desk.is_there("secret", secret_name(desk.agent, KEYS[0]))
    desk.behave("works")
    desk.done("up")


def test_a_name_that_others_took_is_left_alone(desk: ContainerDesk) -> None:
    """Containers and volumes of that name that are not this agent's are named, not removed."""
    desk.done("up")
    desk.done("down")
    image = desk.podman("images", "--quiet", "--filter", "label=minifram.version").split()[0]
    desk.podman("create", "--name", desk.names.container, "--network", "none", image)

    refused = desk.call("up")
    assert (refused.code, desk.names.container in refused.err) == (6, True)
    assert desk.is_there("container", desk.names.container)
    assert desk.call("down").code == 6
    desk.podman("rm", desk.names.container)

    desk.podman("volume", "rm", desk.names.bot)
    desk.podman("volume", "create", desk.names.bot)
    refused = desk.call("up")
    assert (refused.code, desk.names.bot in refused.err) == (6, True)
    desk.podman("volume", "rm", desk.names.bot)
    desk.done("up")


def test_up_works_over_what_a_broken_start_left(desk: ContainerDesk) -> None:
    """A container that was made and never started, a killed one, a volume for another place, an old secret."""
    desk.done("up")
    desk.podman("kill", desk.names.container)
    wait_for(lambda: desk.inspected()["State"]["Status"] == "exited")
    assert desk.call("status").code == 3
    found = [item for item in desk.call("doctor", "--json").json["results"] if item["check"] == "container"]
    assert found[0]["level"] == "warn"
    desk.podman("secret", "create", secret_name(desk.agent, KEYS[0]), "-", stdin="old")
    desk.done("up")
    assert not desk.is_there("secret", secret_name(desk.agent, KEYS[0]))
    assert desk.call("down").code == 0

    image = desk.podman("images", "--quiet", "--filter", "label=minifram.version").split()[0]
    labels = [f"--label=minifram.agent={desk.agent}", f"--label=minifram.home={desk.home.data}"]
    desk.podman("create", "--name", desk.names.container, *labels, "--network", "none", image)
    desk.podman("volume", "rm", desk.names.state)
    elsewhere = desk.user.directory(f"elsewhere-{desk.agent}")
    kind = ["--opt=type=none", "--opt=o=bind", f"--opt=device={elsewhere}"]
    desk.podman("volume", "create", *labels, *kind, desk.names.state)
    desk.done("up")

    assert desk.inspected()["Config"]["Labels"]["minifram.words"]
    assert list(elsewhere.iterdir()) == []


def test_a_new_version_of_the_project_is_a_new_image_and_keeps_the_agent_s_files(desk: ContainerDesk) -> None:
    """Restart builds before it stops; what is unchanged is found again and nothing is built."""
    first = desk.done("up")
    assert "building" not in desk.done("restart").err
    version = desk.inspected()["Config"]["Labels"]["minifram.version"]
    Path(desk.home.places.bot, "from-inside").stat()
    desk.project = desk.user.directory(f"newer-{desk.agent}")
    write_project(desk.project, **{"newer.py": f"VERSION = '{desk.agent}'\n"})

    restarted = desk.done("restart")

    assert "building the image" in restarted.err, first
    labels = desk.inspected()["Config"]["Labels"]
    assert labels["minifram.version"] != version
    assert Path(desk.home.places.bot, "from-inside").exists()
    desk.done("down")
    desk.podman("rmi", f"localhost/minifram:{labels['minifram.version']}")


def test_nothing_is_stopped_for_an_image_that_cannot_be_built(desk: ContainerDesk) -> None:
    """The running agent goes on; the reason is podman's own."""
    pid = desk.done("up", "--json").json["pid"]
    desk.project = desk.user.directory(f"broken-{desk.agent}")
    write_project(desk.project)
    with (desk.project / "Containerfile").open("a") as recipe:
        recipe.write("RUN echo no such luck >&2; exit 3\n")

    restarted = desk.call("restart")

    assert restarted.code == 1, restarted
    assert "could not be built" in restarted.err
    assert desk.inspected()["State"]["Pid"] == pid


def test_an_agent_that_does_not_end_is_ended_at_the_deadline(desk: ContainerDesk) -> None:
    """Down asks, waits as long as it was told, and kills."""
    desk.behave("deaf")
    desk.done("up")

    down = desk.done("down", "--timeout", "1")

    assert "was killed" in down.err
    assert not desk.is_there("container", desk.names.container)


def test_ctrl_c_leaves_a_container_that_down_ends(desk: ContainerDesk) -> None:
    """Whether or not its watcher holds the lock; a second up does not touch it."""
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


def test_refs_that_git_packed_are_seen_inside(desk: ContainerDesk) -> None:
    """`git pack-refs` by hand moves them out of refs/; without that file the agent would have no main."""
    desk.user.run("git", "-C", desk.home.remote, "pack-refs", "--all")

    desk.done("up")

    assert "refs/heads/main" in desk.seen()["refs"]


def test_a_repository_of_somebody_else_is_refused(desk: ContainerDesk) -> None:
    """The keep has the PM's rights and no more: it could not write there."""
    objects = f"{desk.home.remote}/objects"
    desk.user.podman("unshare", "chown", "1:1", objects)

    refused = desk.call("up")

    assert refused.code == 6, refused
    assert objects in refused.err
    desk.user.podman("unshare", "chown", "0:0", objects)
    desk.done("up")


@pytest.mark.parametrize(
    ("conf", "words"),
    [('volumes = ["/etc:/leak"]', "/leak"), ('devices = ["/dev/zero:/dev/leak"]', "/dev/leak")],
    ids=["mount", "device"],
)
def test_a_container_that_would_be_made_otherwise_is_not_started(desk: ContainerDesk, conf: str, words: str) -> None:
    """containers.conf can add to every container what `podman inspect` does not even show."""
    file = desk.user.put(f"containers-{desk.agent}.conf", f"[containers]\n{conf}\n")

    refused = desk.call("up", CONTAINERS_CONF=str(file))

    assert refused.code == 5, refused
    assert words in refused.err
    assert not desk.is_there("container", desk.names.container)
    assert not Path(desk.home.state, "seen.json").exists()
    desk.done("up")


def test_the_pm_s_containers_conf_does_not_widen_it(desk: ContainerDesk) -> None:
    """Variables, capabilities and namespaces that it gives to all containers are not given to this one."""
    conf = desk.user.put(
        f"containers-{desk.agent}.conf",
        '[containers]\nenv = ["LEAKED=1"]\ndefault_capabilities = ["SYS_ADMIN"]\ninit = true\n'
        'ipcns = "host"\npidns = "host"\nutsns = "host"\nnetns = "host"\nuserns = "auto"\n',
    )
    desk.done("up", CONTAINERS_CONF=str(conf))

    seen = desk.seen()

    assert "LEAKED" not in seen["environ"]
    assert (seen["pid"], seen["interfaces"]) == (1, ["lo"])
    own = ("--network=none", "--pid=private", "--ipc=private", "--uts=private", "--userns=host", "--init=false")
    words = ["run", "--rm", *own, "--entrypoint=env"]
    plain = desk.user.run("env", f"CONTAINERS_CONF={conf}", *desk.user.command(*words, desk.inspected()["ImageName"]))
    assert "LEAKED" in plain.stdout  # the file does what it says to a container that is not sealed


def test_the_tree_goes_over_to_the_cell_and_back(desk: ContainerDesk) -> None:
    """The process sandbox leaves files of the PM's, the container files of the cell's; each takes them over whole."""
    bot = Path(desk.home.places.bot)
    inner = bot / "main" / "minifram"
    desk.user.run("mkdir", "-p", "-m", "700", str(inner))
    desk.user.run("ln", "-s", "/etc/passwd", str(inner / "link"))
    before = os.stat("/etc/passwd").st_uid

    desk.done("up")

    cell = desk.machine().host_uid(1000)
    assert {os.lstat(path).st_uid for path in (bot, inner, inner / "link")} == {cell}
    assert stat.S_IMODE(inner.stat().st_mode) & 0o055 == 0o055
    desk.done("down")
    process = desk.call("up", "--sandbox", "process", "--timeout", "5")
    assert "NOT isolated" in process.err
    assert {os.lstat(path).st_uid for path in (bot, inner, inner / "link")} == {desk.user.uid}
    assert os.stat("/etc/passwd").st_uid == before


def test_an_entrypoint_that_cannot_be_run_is_podman_s_trouble(desk: ContainerDesk) -> None:
    """Start fails, the reason is shown, nothing stays."""
    desk.project = desk.user.directory(f"broken-{desk.agent}")
    write_project(desk.project)
    (desk.project / ENTRYPOINT).write_text("#!/no/such/interpreter\n")

    up = desk.call("up")

    assert up.code == 1, up
    assert not desk.is_there("container", desk.names.container)
