"""The seal on a running container: what is left of its rights, that it stands before the agent's first line however the
container was started, and that the agent does not run without it. The agent is whole and real; it has no network."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from host.container.words import cell_words
from infra.cell.bridge import Hello
from infra.keep.seal.capabilities import FOR_WATCHING, bits
from infra.shared.exit_codes import Exit
from infra.shared.paths import CONTAINER
from infra.shared.policy import Policy
from tests.cell.cell import limits
from tests.egress.far_end import PUBLIC4
from tests.egress.peer import Peer
from tests.egress.wire import Packet
from tests.keep.environments.wheelwright import make_wheel, repacked, sha256
from tests.keep.web_door.sites import certificate
from tests.sealed.support.agent import Inside, SealedAgent, born, until
from tests.sealed.support.project import Project

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]

KEY = "sk-ant-api03-" + "of-a-test-and-of-nobody-" * 4 + "AA"
INDEX, OTHER = "index.example", "other.example"
"""An index that the PM names, and one that the PM does not."""
REJECTED = "EHOSTUNREACH"


@pytest.fixture
def agent(project: Project) -> Iterator[SealedAgent]:
    with born(project) as agent:
        yield agent


NEEDED = ("GitPython", "gitdb", "smmap", "msgspec", "psutil", "structlog", "watchdog", "PyYAML")
"""What the runner imports."""


@pytest.mark.fault("F68")
@pytest.mark.attack("S04", "S05", "S15", "S16", "S20", "S25", "S44")
def test_what_is_the_keep_s_is_out_of_the_cell_s_reach(agent: SealedAgent) -> None:
    """One agent for many looks, which leave it as it is."""
    agent.settings("model: {provider: anthropic}\n")
    agent.minifram("up", ANTHROPIC_API_KEY=KEY)
    _each_process_has_only_what_it_needs(agent)
    _the_key_is_the_model_door_s_alone(agent)
    _the_cell_cannot_touch_what_is_the_keep_s(agent)
    _the_image_holds_no_more_than_is_needed(agent)
    _the_bridge_asks_the_doors_as_the_cell(agent)


def _each_process_has_only_what_it_needs(agent: SealedAgent) -> None:
    """The watcher three capabilities, everything else none; no process could gain one, and all are under the filter."""
    found = list[Inside]()

    def forks_are_programs() -> bool:
        """What the watcher has forked looks like the watcher for a moment."""
        found[:] = agent.inside()
        return found[0].words not in [one.words for one in found[1:]]

    until(forks_are_programs, "every process by its own program")
    first, *others = found
    assert agent.as_agent("ip route show table local dev lo").count("quickack 1") == 2, "a push waits for no timer"

    assert first.held.permitted == first.held.bounding == bits(FOR_WATCHING)
    for program in ("infra.git_door", "infra.model_door", "git-daemon", "dnsmasq", "infra.runner"):
        assert [one for one in others if program in one.words], (program, [one.words for one in others])
    for one in others:
        assert one.held.permitted == one.held.effective == one.held.ambient == one.held.inheritable == 0, one
        assert one.held.bounding & ~bits(FOR_WATCHING) == 0, one
    assert all(one.held.no_new_privileges and one.held.seccomp for one in found)
    runners = {one.uid for one in others if "infra.runner" in one.words}
    assert len(runners) == 1
    assert runners.isdisjoint({agent.user.uid, 0, 1000}), "the cell is nobody on the host"


def _the_key_is_the_model_door_s_alone(agent: SealedAgent) -> None:
    """It is in no environment, no command line, no file that the cell can read, not with podman, not in the image."""
    found = agent.inside()
    (door,) = (one for one in found if "infra.model_door" in one.words)

    looked_at = set()
    for one in found:
        assert KEY not in one.words
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a git that has ended by now
            assert KEY.encode() not in Path(f"/proc/{one.pid}/environ").read_bytes()
            looked_at.add(one.words.partition("infra.")[2].split()[0] if "infra." in one.words else "")
    assert {"model_door", "git_door", "runner"} <= looked_at
    secret = "/run/minifram/secrets/anthropic_api_key"
    look = f"stat -c '%a %u' {secret}; wc -c <{secret}; pgrep -f infra.model_door"
    mode, owner, size, pid, *_ = agent.podman("exec", agent.container, "sh", "-c", look).split()
    assert (mode, owner, size) == ("400", "0", str(len(KEY))), "the control: it is there"
    told = agent.answers(f"cat {secret}", f"cat /proc/{pid}/environ", f"cat /proc/{pid}/mem", f"ls /proc/{pid}/fd")
    assert [command for command, said in told.items() if "Permission denied" not in said] == []
    everything = agent.as_agent("grep -rlsF -- '" + KEY + "' /bot /tmp /var/tmp /run /etc /opt /proc/[0-9]*/environ")
    assert everything == ""
    assert door.uid != int(agent.podman("exec", "--user=1000:1000", agent.container, "id", "-u"))
    shown = agent.podman("container", "inspect", agent.container) + agent.podman("logs", agent.container)
    image = agent.podman("container", "inspect", "--format={{.Image}}", agent.container)
    shown += agent.podman("image", "inspect", image) + agent.podman("image", "history", "--no-trunc", image)
    shown += "".join(path.read_text() for path in Path(agent.home.state).glob("*.log"))
    assert len(shown) > 1000
    assert KEY not in shown


def _the_cell_cannot_touch_what_is_the_keep_s(agent: SealedAgent) -> None:
    """Not one byte of the repository, the keep's state, its code or the settings. The keep's own root writes no more of
    the repository than objects and refs."""
    remote, state, told = "/mnt/remote", "/var/lib/minifram", "/events/2026-01-31.jsonl"
    as_keep = ("exec", agent.container, "bash", "-c")
    copy = agent.podman(*as_keep, f"umask 022; echo told >{told}; ls -d /code/*").split()[0]
    barred = (
        *(
            f"{look} {remote}/{path}"
            for look in ("ls", "cat", "stat")
            for path in ("HEAD", "objects", "refs/heads/main")
        ),
        *(f"touch {place}/x" for place in (remote, f"{remote}/refs/heads", f"{remote}/objects", state, "/code")),
        *(f"git --git-dir={remote} {words}" for words in ("log", "push . HEAD:x", "update-ref refs/heads/x HEAD")),
        *(f"cat {state}/watcher.json", f"cat {state}/door/hooks/pre-receive >/dev/full"),
        *(f"touch {copy}/infra/x", f": >>{copy}/infra/runner.py", f"rm {copy}/SYSTEM.md"),
        *("touch /opt/minifram/infra/x", "touch /etc/minifram/x", ": >/etc/minifram/minifram.yaml"),
        *(
            look.replace("LOG", log)
            for log in (told, f"/bot/mind/logs{told}")
            for look in (": >>LOG", "rm -f LOG", "mv LOG LOG.x", "touch $(dirname LOG)/x")
        ),
    )
    refusals = ("Permission denied", "Read-only file system", "not a git repository")
    answers = agent.answers(*barred)
    assert {command: said for command, said in answers.items() if not any(each in said for each in refusals)} == {}
    readable = agent.answers(f"cat {told}", f"cat /bot/mind/logs{told}", f"cat {copy}/SYSTEM.md", "touch /bot/x")
    told_here, told_there, system, made = readable.values()
    assert told_here == told_there == "told", "the log of events is everybody's to read"
    assert "# Who you are" in system, "so is what runs"
    assert made == ""
    for path in ("HEAD", "config", "packed-refs", "objects/info/alternates"):
        assert "Read-only" in agent.podman(*as_keep, f"{{ : >>{remote}/{path}; }} 2>&1; true"), path
    agent.podman(*as_keep, f"touch {remote}/planted {remote}/objects/pack/kept {remote}/refs/heads/x.lock")
    here = Path(agent.home.remote)
    assert not (here / "planted").exists(), "the top level is the container's own memory"
    for landed in ("objects/pack/kept", "refs/heads/x.lock"):
        (here / landed).unlink()  # it exists: the control, what is pushed lands here


def _the_image_holds_no_more_than_is_needed(agent: SealedAgent) -> None:
    """Nothing in it runs as its owner, may be written by others than root, or was left by its making; and Python has
    compiled it already."""

    def found(look: str) -> str:
        return agent.podman("exec", agent.container, "sh", "-c", f"{look} 2>/dev/null; true")

    assert found("find / -xdev -type f -perm /6000") == ""
    assert found(r"find /opt/minifram ! -type l \( -perm /022 -o ! -uid 0 \)") == ""
    assert found("find /var/lib/apt/lists /root/.cache /mnt/wheels -type f") == ""
    compiled = [found(f"find /opt/minifram/infra -name '*{end}' | wc -l") for end in (".py", ".cpython-311.pyc")]
    assert compiled[0] == compiled[1] != "0"
    size = found("du -x --summarize --apparent-size --block-size=MB /")
    assert 50 < int(size.partition("MB")[0]) < 400


def _the_bridge_asks_the_doors_as_the_cell(agent: SealedAgent) -> None:
    """By the words of `minifram serve`: the installed code runs as the cell's user, with nothing more than a command of
    the agent has, and reaches the doors."""
    hello = Hello(CONTAINER, Policy(), limits())
    asked = [
        {"id": "1", "do": "tool", "name": "fetch_page", "args": {"url": "http://10.0.0.1/"}},
        {"id": "2", "do": "run", "task": "x", "bounds": {"max_wall_time_ms": 20_000}},
    ]
    command = agent.user.command(*cell_words(agent.name, "infra.cell.bridge"))
    with agent.user.popen(*command) as bridge:
        assert bridge.stdin
        assert bridge.stdout
        bridge.stdin.write("".join(f"{msgspec.json.encode(each).decode()}\n" for each in (hello, *asked)))
        bridge.stdin.flush()
        answers: dict[str, Any] = {}
        while len(answers) < 2 and (line := bridge.stdout.readline()):
            answer = json.loads(line)
            answers |= {answer["id"]: answer["end"]} if "end" in answer else {}
        rights = "grep -hE '^(Uid|Gid|Cap|NoNewPrivs|Seccomp)'"
        pid = agent.as_agent("grep -lz infra.cell[.]bridge /proc/[0-9]*/cmdline 2>/dev/null | head -1 | cut -d/ -f3")
        found, mine = (agent.as_agent(f"{rights} /proc/{each}/status") for each in (pid, "self"))
        bridge.stdin.close()
        bridge.wait(20)
    assert (answers["1"]["status"], answers["1"]["error_code"]) == ("denied", "policy_denied")
    assert answers["2"]["error"] == "tool_unavailable"  # no network, so no model
    assert "Seccomp" in mine
    assert found == mine


@pytest.mark.fault("F07", "F08", "F11", "F17", "F66", "F67")
@pytest.mark.attack("S21", "S41", "S42", "S47")
def test_no_start_runs_the_agent_unsealed(agent: SealedAgent) -> None:
    """One agent through many ends and starts; its main has a package of its own."""
    _has_a_package_of_its_own(agent)
    agent.minifram("up")
    until(lambda: agent.serves(1), "it serves")
    _the_rules_stand_before_the_first_line_however_it_was_started(agent)
    _what_forks_and_leaves_without_rest_ends_with_its_runner(agent)
    _nothing_is_launched_when_the_rules_are_gone(agent)
    _what_is_planted_in_the_repository_keeps_the_agent_out(agent)
    _a_container_that_is_looser_does_not_run_the_agent(agent)


def _has_a_package_of_its_own(agent: SealedAgent) -> None:
    """From wheels that lie there, as it has no network."""
    place, bot = agent.user.directory(f"wheels-{agent.name}"), agent.home.places.bot
    wheels = [make_wheel(place, "alpha", "1.0"), *(repacked(place, name) for name in NEEDED)]
    mine = f"mkdir {bot}/wheels && cp {place}/*.whl {bot}/wheels && chown -R 1000:1000 {bot}"
    agent.podman("unshare", "sh", "-c", mine)
    named = (f"{'=='.join(each.name.split('-')[:2])} --hash=sha256:{sha256(each)}" for each in wheels)
    agent.probe("\n".join(["--no-index", "--find-links /bot/wheels", *named, ""]))


def _the_rules_stand_before_the_first_line_however_it_was_started(agent: SealedAgent) -> None:
    """Up, stopped and started, and started after its first process was killed: the first line of the agent's code finds
    the canary rejected. The package was installed before the first start, and each start after it found it again; the
    runner has that interpreter, and the keep goes on with its own."""
    agent.podman("restart", "--time=20", agent.container)
    until(lambda: agent.serves(2), "it serves after podman restart")
    agent.podman("kill", "--signal=KILL", agent.container)
    until(lambda: agent.state()["Status"] == "exited", "the container ends with its first process")
    agent.podman("start", agent.container)
    until(lambda: agent.serves(3), "it serves after its first process was killed")
    assert {*agent.starts()} == {REJECTED}
    its_own = [each.words for each in agent.inside() if "/bot/.env" in each.words and "infra." in each.words]
    assert {words.partition("infra.")[2].split()[0] for words in its_own} == {"runner"}
    assert Path(agent.home.state, "watcher.log").read_text().count("preparation.began") == 1


COMET = """
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
while True:
    try:
        if os.fork(): os._exit(0)
        os.close(os.open(f'/bot/beat{sys.argv[1]}', os.O_CREAT | os.O_WRONLY))
        os.utime(f'/bot/beat{sys.argv[1]}')
    except OSError:
        pass
    time.sleep(0.0005)
"""


def _what_forks_and_leaves_without_rest_ends_with_its_runner(agent: SealedAgent) -> None:
    """No list of processes holds it for long enough; the next runner is alone all the same."""
    lived = len(agent.starts())
    comets = "; ".join(f'python3.11 -S -E -c "$comet" {number}' for number in range(5))
    agent.as_agent(f"comet=$(cat <<'END'\n{COMET}\nEND\n); {comets}")

    # From outside: inside they leave hardly a process to anybody else of their user.
    def beats() -> list[str]:
        looked = f"stat -c %.Y {agent.home.places.bot}/beat* 2>/dev/null || true"
        return agent.podman("unshare", "sh", "-c", looked).split()

    until(lambda: len(beats()) == 5, "all five have begun")
    before = beats()
    until(lambda: not set(before) & set(beats()), "the control: they live")
    (runner,) = [each.pid for each in agent.inside() if "infra.runner" in each.words]
    agent.podman("unshare", "kill", str(runner))
    until(lambda: agent.serves(lived + 1), "the next runner serves")
    after = beats()
    time.sleep(1)
    assert beats() == after


def _nothing_is_launched_when_the_rules_are_gone(agent: SealedAgent) -> None:
    """However they went: the proof before the next launch fails, and the PM reads why. The control: what asks the
    canary then finds something else."""
    before, lived = agent.page(), len(agent.starts())
    assert "Operation not permitted" in agent.as_agent("nft flush ruleset")
    agent.podman("unshare", "nsenter", f"--target={agent.pid()}", "--net", "nft", "flush", "ruleset")
    ask = "python3.11 -c \"import socket; socket.create_connection(('10.255.255.254', 9))\""
    assert "Connection refused" in agent.as_agent(ask)
    (runner,) = [each.pid for each in agent.inside() if "infra.runner" in each.words]
    agent.podman("unshare", "kill", str(runner))

    until(lambda: "the egress rules are not in force" in agent.page().removeprefix(before), "the PM reads why")
    assert "infra.runner" not in "".join(one.words for one in agent.inside())
    assert len(agent.starts()) == lived
    agent.podman("stop", "--time=20", agent.container)


def _what_is_planted_in_the_repository_keeps_the_agent_out(agent: SealedAgent) -> None:
    """Whoever starts the container, the agent's first line is not reached; the PM is told once."""
    lived, before, config = len(agent.starts()), agent.page(), Path(agent.home.remote, "config")
    good = config.read_text()
    config.write_text(good + "[core]\n\tfsmonitor = touch /tmp/planted\n")
    for _ in range(2):
        agent.podman("start", agent.container)
        assert agent.exit_code() == Exit.DENIED
    assert len(agent.starts()) == lived
    said = agent.page().removeprefix(before)
    assert said.count("the container could not be sealed") == 1
    assert "core.fsmonitor" in said
    config.write_text(good)


def _a_container_that_is_looser_does_not_run_the_agent(agent: SealedAgent) -> None:
    """Whoever made it so: made again by other words than those of `up`, it ends before the agent's first line, and the
    PM reads why. The control: by the same words it serves."""
    lived, words = len(agent.starts()), agent.created_by()
    empty = agent.user.put("empty.nft", "table inet minifram { }\n")
    without_rules = [words[0], f"--volume={empty}:/opt/minifram/nftables/egress.nft:ro", *words[1:]]
    looser = [word.replace("HEAD,ro=true", "HEAD,ro=false") for word in words]
    assert looser != words
    looser.insert(1, "--cap-add=SYS_ADMIN")
    for changed, reasons in (
        (without_rules, ("are not proved",)),
        (looser, ("capabilities that it must not have", "HEAD can be written")),
    ):
        agent.podman("rm", "--force", "--time=20", agent.container)
        before = agent.page()
        agent.podman(*changed)
        agent.podman("start", agent.container)
        assert agent.exit_code() == Exit.DENIED, reasons
        said = agent.page().removeprefix(before)
        assert [each for each in reasons if each not in said] == [], (said, agent.podman("logs", agent.container))
    assert len(agent.starts()) == lived
    agent.podman("rm", agent.container)
    agent.podman(*words)
    agent.podman("start", agent.container)
    until(lambda: agent.serves(lived + 1), "it serves again")


@contextlib.contextmanager
def world_of(agent: SealedAgent) -> Iterator[Peer]:
    """For a container that has no network: the far end of `tests/egress`, in a namespace of its own, and the one link
    between the two. No packet leaves the machine. It is joined to the container as it runs now, which is made anew with
    each start."""
    user, pid = agent.user, agent.pid()
    program = agent.project.command("tests.egress.far_end")
    world = Peer(user.popen(*user.command("unshare", "unshare", "--net", *program)))
    with world.process:
        try:
            world.ask("join", cell_pid=pid)
            for command in ("addr add 10.0.2.100/24 dev c0", "link set c0 up", "route add default via 10.0.2.2"):
                agent.podman("unshare", "nsenter", f"--target={pid}", "--net", "ip", *command.split())
            yield world
        finally:
            world.end()


def arrived(world: Peer) -> set[int]:
    """The ports that packets came for since the last time."""
    return {Packet(*one).port for one in world.ask("take")}


FETCH = """
import json, socket, sys
door = socket.socket(socket.AF_UNIX)
door.settimeout(60)
door.connect("/run/minifram/web.sock")
door.sendall(json.dumps({"do": "fetch", "url": sys.argv[1]}).encode() + b"\\n")
print(door.makefile().readline())
"""


@pytest.mark.attack("S43", "S53")
def test_the_pm_sees_what_it_asked_of_the_network(agent: SealedAgent) -> None:
    """Names by how much they carried, and the rules that stopped something; seen from outside, of a real container.
    With the doors alone it asks for no name and sends no packet: it reads a page by the web door, as pip asks there."""
    agent.minifram("up")
    agent.as_agent("for each in a b c; do timeout 1 getent hosts $each.tunnel.example & done; wait")
    # Loopback is for loopback addresses: here an attempt that needs no other network.
    odd = "socket.create_connection(('127.0.0.1', 80), 5, ('10.255.255.254', 0))"
    assert "No route to host" in agent.as_agent(f'python3.11 -c "import socket; {odd}"')

    told = json.loads(agent.minifram("egress", "--json").stdout)
    assert told["names"]["tunnel.example"]["questions"] >= 3
    assert told["rejected"]["special"] >= 1
    shown = agent.minifram("egress").stdout
    assert "tunnel.example" in shown
    assert "special" in shown

    agent.settings(f"model: {{provider: scripted}}\negress: {{mode: door}}\nweb: {{package_hosts: [{INDEX}]}}\n")
    agent.minifram("restart")
    with world_of(agent) as world:
        _behind_doors(agent, world)


def _behind_doors(agent: SealedAgent, world: Peer) -> None:
    folder = agent.user.directory(f"index-{agent.name}")
    certificate(folder, INDEX)
    both = "".join((folder / f"{INDEX}.{end}").read_text() for end in ("key", "crt"))
    world.ask("secure", certificate=str(agent.user.put(f"{agent.name}.pem", both)))
    (runner,) = [each.pid for each in agent.inside() if "infra.runner" in each.words]
    environment = agent.podman("unshare", "cat", f"/proc/{runner}/environ").split("\0")
    given = " ".join(pair for pair in environment if pair.startswith(("PIP_INDEX_URL=", "NPM_CONFIG_REGISTRY=")))
    assert given.count("http://127.0.0.1:3128/") == 2

    def alone(command: str) -> str:
        """As the cell does it, with what the runner gives to all that it starts."""
        return agent.as_agent(f"export {given}; {command}")

    pip = "python -m pip install --no-cache-dir --disable-pip-version-check --retries 0 -vv --index-url"
    told = alone(f"{pip} http://127.0.0.1:3128/{INDEX}/simple/ sealedpkg")
    unproven = f"https://{INDEX} cannot be reached, or does not prove who it is ([SS"
    assert unproven in told, "its certificate is one of the test's own"
    told = alone(f"{pip} http://127.0.0.1:3128/{OTHER}/simple/ none")
    assert f"{OTHER} is not in web.package_hosts" in told
    assert "hello" in alone(f"python3.11 -c '{FETCH}' http://pages.example/")
    assert arrived(world) == {53, 80, 443}, "the control: these did arrive"

    connect = "socket.create_connection((sys.argv[1], 443), 5)"
    tried = agent.answers(
        *(
            f'python3.11 -c "import socket, sys, urllib.request; {plainly}" {where}'
            for plainly in (connect, "urllib.request.urlopen('http://' + sys.argv[1])")
            for where in (PUBLIC4, "secret.of.a.name.example")
        )
    )
    assert [said for said in tried.values() if "No route to host" not in said and "name resolution" not in said] == []
    assert arrived(world) == set()
    trace = [json.loads(line) for line in agent.read(f"{agent.home.state}/web.jsonl").splitlines()]
    seen = [(line["status"], line["origin"]) for line in trace]
    assert seen[-1] == ("ok", "http://pages.example")
    assert {*seen[:-1]} == {("error", f"https://{INDEX}"), ("denied", f"https://{OTHER}")}
    (door,) = (one for one in agent.inside() if "infra.web_door" in one.words and "setpriv" not in one.words)
    assert (door.held.permitted, door.held.effective) == (0, 0)
    others = "stat /run/minifram/model.sock /run/minifram/git.sock /run/minifram/secrets"
    for who, refused in (("970:970", 3), ("1000:1000", 0)):
        said = agent.podman("exec", f"--user={who}", agent.container, "sh", "-c", f"{{ {others}; }} 2>&1; true")
        assert said.count("Permission denied") == refused, "the web door's user reaches no other door"
    rejected = json.loads(agent.minifram("egress", "--json").stdout)["rejected"]
    assert {"not_by_door", "dns_by_cell"} <= rejected.keys()
    adds = "mkdir skills && echo obey >skills/x.md && git add -A && git commit -qm x && git push -q origin HEAD:main"
    clone = "cd /tmp && git clone -q git://127.0.0.1/remote tainted && cd tainted"
    said = agent.as_agent(f"export HOME=/bot; {clone} && {adds}")
    assert "the agent has read the web (http://pages.example)" in said, "the keep's own record decides"
    assert "tainted by http://pages.example" in agent.minifram("status").stdout
    assert " served of 1 host," in agent.minifram("status").stdout
    agent.minifram("trust")
    assert "tainted by" not in agent.minifram("status").stdout


@pytest.mark.timeout(900)
def test_the_demo_runs_whole_in_the_container(project: Project) -> None:
    """Directive, self-upgrade, two bad versions, rollback: each step is seen, as without a container, and every test
    of the agent's passes the examination."""
    kept = str(project.user.directory("kept"))
    done = project.minifram("demo", "--sandbox", "podman", "--keep-at", kept, check=False, timeout=850)
    assert done.returncode == 0, done.stdout + done.stderr
    for step in ("a. A directive", "b. A directive to improve itself", "c. A bad upgrade", "d. The PM rolls back"):
        assert step in done.stdout
    agent = re.search(r"minifram/(demo-[0-9-]+)/remote\.git", done.stdout)
    assert agent
    assert project.user.podman("ps", "--all", "--quiet", f"--filter=name=minifram-{agent[1]}").stdout == ""
