"""The cell's network namespace from inside: its root, who loads the rules with the product's own code, and a process
for each user that attempts are made as.

Run as `python -m tests.egress.near_end`; told what to do as in `peer`."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

from host import egress
from infra.keep.egress import canary, packages, rules, seal_egress
from infra.keep.egress.resolver import resolver_command
from infra.keep.settings import EgressMode, EgressSettings
from infra.shared.identity import Identity
from tests.egress import attempts
from tests.egress.peer import ask, serve

AGENT, RESOLVER, WEB, EXAMINER = 1000, 990, 970, 980
UPSTREAM4, UPSTREAM6 = "10.0.2.3", "fd00::3"
HOST = ("198.4.4.4", "2a00:1450:4001::53")
"""Public addresses that are said to be the machine's own."""
"""As many as any test lists; sets that nobody fills are no matter."""
EXITS = rules.Exits(RESOLVER, WEB, (UPSTREAM4, UPSTREAM6), host=HOST)

NET_RAW = 1 << 13


class User(NamedTuple):
    uid: int
    capabilities: int = 0


USERS = {
    "agent": User(AGENT),
    "forger": User(AGENT, NET_RAW),  # more than the real cell can ever have
    "resolver": User(RESOLVER),
    "keep": User(0),
    "web": User(WEB),
    "examiner": User(EXAMINER),
}


def become(user: User) -> None:
    """For ever, in this process."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(*words: Any) -> None:
        if libc.prctl(*words) != 0:
            raise OSError(ctypes.get_errno(), f"prctl{words}")

    for capability in range(41):
        if not user.capabilities >> capability & 1:
            call(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
    call(8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS
    call(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    os.setgroups([])
    os.setresgid(user.uid, user.uid, user.uid)
    os.setresuid(user.uid, user.uid, user.uid)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)(user.capabilities, user.capabilities, 0, 0, 0, 0)
    if libc.capset(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset")


CALLS: dict[str, Callable[..., Any]] = {
    name: getattr(attempts, name)
    for name in (
        *(
            "accept",
            "answer_from",
            "connect_plainly",
            "dns",
            "dns_by_tcp",
            "hear",
            "hold",
            "listen",
            "many",
            "many_datagrams",
        ),
        *("many_names", "named", "packet_socket", "ping", "raw", "release", "run", "say", "sit", "tcp", "udp", "who"),
        "write",
    )
}


class NearEnd:
    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.users = {name: self._start(user) for name, user in USERS.items()}
        self.resolver: subprocess.Popen[bytes] | None = None
        self.log = self.folder / "dnsmasq.log"
        self.packages: subprocess.Popen[bytes] | None = None
        self.trace = self.folder / "web.jsonl"

    def _start(self, user: User) -> tuple[IO[str], IO[str]]:
        asked_read, asked_write = os.pipe()
        told_read, told_write = os.pipe()
        if os.fork() == 0:
            os.close(asked_write)
            os.close(told_read)
            become(user)
            with open(asked_read, encoding="utf-8") as asked, open(told_write, "w", encoding="utf-8") as told:
                serve(CALLS, asked, told)
            os._exit(0)
        os.close(asked_read)
        os.close(told_write)
        return open(asked_write, "w", encoding="utf-8"), open(told_read, encoding="utf-8")

    def as_user(self, name: str, how: str, words: dict[str, Any]) -> Any:
        """Have one of the users try something."""
        return ask(*self.users[name], how, words)

    def hello(self) -> int:
        return os.getpid()

    # --- the namespace ---------------------------------------------------------------------------

    def settle(self) -> None:
        """Addresses as a rootless container has them, and names by way of the resolver."""
        for command in (
            "link set lo up",
            "addr add 10.0.2.100/24 dev c0",
            "addr add fd00::100/64 dev c0 nodad",
            "addr add fe80::100/64 dev c0 nodad",
            "link set c0 up",
            "route add default via 10.0.2.2",
            "-6 route add default via fe80::2 dev c0",
        ):
            subprocess.run(["ip", *command.split()], check=True)
        Path("/proc/sys/net/ipv4/ping_group_range").write_text("0 64000")
        Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("53")  # as `up` has it for the resolver
        resolv = self.folder / "resolv.conf"
        resolv.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:2\n")
        subprocess.run(["mount", "--bind", resolv, os.path.realpath("/etc/resolv.conf")], check=True)

    def ip(self, command: str) -> str:
        return subprocess.run(["ip", *command.split()], check=True, capture_output=True, text=True).stdout

    def nft(self, text: str) -> None:
        rules.load_text(text)

    def load(self, mode: EgressMode = "open") -> None:
        """The product's rules."""
        rules.load_rules(EXITS._replace(mode=mode))

    def seal(self, mode: EgressMode = "open") -> list[str]:
        """The product's own seal; what its proof says at once, without the rules, and without the canary."""
        why = self._sealed(mode)
        told = [why()]
        self.unload()
        told.append(why())
        self.load(mode)
        self.ip(f"address del {canary.V6.address}/{canary.V6.prefix} dev lo")
        told.append(why())
        canary.place([canary.V6])
        return [*told, why()]

    def seal_and_swap(self, mode: EgressMode, instead: EgressMode) -> list[str]:
        """What the proof of one mode says with its own rules, with those of another, and with its own again."""
        why = self._sealed(mode)
        told = [why()]
        for each in (instead, mode):
            self.load(each)
            told.append(why())
        return told

    def _sealed(self, mode: EgressMode) -> Callable[[], str]:
        users = seal_egress.Users(*(Identity(uid, uid) for uid in (RESOLVER, WEB, AGENT)))
        return seal_egress.put_on(EgressSettings(mode=mode), UPSTREAM4, users)

    def load_by(self, nft: str) -> None:
        rules.load_rules(EXITS, nft=(nft,))

    def load_from(self, folder: str) -> None:
        rules.load_rules(EXITS, folder)

    def reload_while(self, name: str, how: str, words: dict[str, Any], times: int) -> Any:
        """Load the rules again and again while a user is at it."""
        to, back = self.users[name]
        to.write(json.dumps({"call": how, "with": words}) + "\n")
        to.flush()
        for _ in range(times):
            self.load()
        return json.loads(back.readline())["value"]

    def unload(self) -> None:
        rules.load_text("table inet minifram\ndelete table inet minifram\n")

    def counted(self) -> dict[str, int]:
        command = ("nft", "-j", "list", "counters", "table", "inet", "minifram")
        listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout
        return egress.parse_counters(listed)

    def place(self) -> None:
        canary.place((canary.V4, canary.V6))

    def prove(self, version: int = 4, seconds: float = 1.0) -> list[str]:
        proof = canary.prove(canary.V4 if version == 4 else canary.V6, seconds)
        return [proof.verdict.name, proof.detail]

    def prove_while(self, name: str, how: str, words: dict[str, Any], times: int, mode: str = "") -> list[str]:
        """Prove again and again while a user is at it; how often with what verdict, of a mode what its proof says."""
        cell = Identity(AGENT, 0)
        to, back = self.users[name]
        to.write(json.dumps({"call": how, "with": words}) + "\n")
        to.flush()
        found = []
        for number in range(times):
            time.sleep(0.01)
            one = (canary.V4, canary.V6)[number % 2]
            found.append(seal_egress.why_not([one], cell) if mode else self.prove(4 + number % 2 * 2, 0.9)[0])
        back.readline()
        return found

    # --- the resolver ----------------------------------------------------------------------------

    def start_resolver(self) -> None:
        """The product's command line, and wait until it answers."""
        self.stop_resolver()
        rights = "-all,+net_bind_service"  # port 53 is not for everybody in every namespace
        become = ["setpriv", f"--reuid={RESOLVER}", f"--regid={RESOLVER}", "--clear-groups", "--pdeathsig", "KILL"]
        become += [f"--inh-caps={rights}", f"--ambient-caps={rights}", "--no-new-privs", "--"]
        with self.log.open("wb") as stderr:
            self.resolver = subprocess.Popen(
                [*become, *resolver_command([UPSTREAM4])],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,
            )
        deadline = time.monotonic() + 10
        while attempts.dns("is-up.lan", seconds=0.1)[0] != 3:
            if time.monotonic() > deadline or self.resolver.poll() is not None:
                raise AssertionError(f"dnsmasq does not answer: {self.log.read_text()}")

    def start_packages(self, hosts: list[str], certificate: str) -> None:
        """The way to package indexes, as the web door's user; who can read the interpreter, wherever it lies."""
        reads = "-all,+dac_read_search"
        become = ["setpriv", f"--reuid={WEB}", f"--regid={WEB}", "--clear-groups", "--pdeathsig", "KILL"]
        become += [f"--inh-caps={reads}", f"--ambient-caps={reads}", "--no-new-privs", "--"]
        words = [sys.executable, "-m", "tests.egress.package_door", str(packages.PORT), certificate, *hosts]
        with self.trace.open("wb") as trace, (self.folder / "packages.log").open("wb") as errors:
            self.packages = subprocess.Popen([*become, *words], stdin=subprocess.DEVNULL, stdout=trace, stderr=errors)
        deadline = time.monotonic() + 10
        while attempts.connect_plainly("127.0.0.1", packages.PORT) != attempts.REACHED:
            if time.monotonic() > deadline or self.packages.poll() is not None:
                raise AssertionError(f"it does not answer: {(self.folder / 'packages.log').read_text()}")
            time.sleep(0.02)

    def stop_packages(self) -> list[Any]:
        """Gives its trace."""
        if self.packages:
            self.packages.kill()
            self.packages.wait()
            self.packages = None
        return [json.loads(line) for line in self.trace.read_text().splitlines()]

    def stop_resolver(self) -> None:
        if self.resolver:
            # With the children that answer by TCP: they hold its socket.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.resolver.pid, signal.SIGKILL)
            self.resolver.wait()
            self.resolver = None

    def resolver_log(self) -> list[str]:
        return self.log.read_text().splitlines()

    def resolver_status(self) -> str:
        if self.resolver is None:
            raise AssertionError("no resolver was started")
        return Path(f"/proc/{self.resolver.pid}/status").read_text()

    def run(self, command: list[str], seconds: float = 60.0) -> list[Any]:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            cwd=self.folder,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.folder), "TMPDIR": str(self.folder)},
        )
        return [done.returncode, (done.stdout + done.stderr)[-4000:]]


def main(folder: str) -> None:
    for name in ("ascii", "idna", "latin_1"):  # while they can be read: the agent may have no way to the interpreter
        importlib.import_module(f"encodings.{name}")
    near = NearEnd(folder)
    names = (
        *("as_user", "counted", "hello", "ip", "load", "load_by", "load_from", "nft", "place", "prove"),
        *("prove_while", "reload_while", "resolver_log", "resolver_status", "run", "seal", "seal_and_swap", "settle"),
        *("start_packages", "start_resolver", "stop_packages", "stop_resolver", "unload"),
    )
    with contextlib.ExitStack() as stack:
        stack.callback(near.stop_resolver)
        stack.callback(near.stop_packages)
        serve({name: getattr(near, name) for name in names})


if __name__ == "__main__":
    main(sys.argv[1])
