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
from pathlib import Path
from typing import IO, Any, NamedTuple

from host import egress
from infra.keep.egress import proof, rules
from infra.keep.egress.resolver import resolver_command
from infra.keep.settings.schema import EgressMode
from infra.shared.identity import Identity
from tests.egress import attempts
from tests.egress.peer import ask, methods_of, serve

AGENT, RESOLVER, WEB, EXAMINER = 1000, 990, 970, 980
UPSTREAM4, UPSTREAM6 = "10.0.2.3", "fd00::3"
HOST = ("198.4.4.4", "2a00:1450:4001::53")
"""Public addresses that are said to be the machine's own."""
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


class NearEnd:
    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.users = {name: self._start(user) for name, user in USERS.items()}
        self.resolver: subprocess.Popen[bytes] | None = None
        self.log = self.folder / "dnsmasq.log"

    def _start(self, user: User) -> tuple[IO[str], IO[str]]:
        asked_read, asked_write = os.pipe()
        told_read, told_write = os.pipe()
        if os.fork() == 0:
            os.close(asked_write)
            os.close(told_read)
            become(user)
            with open(asked_read, encoding="utf-8") as asked, open(told_write, "w", encoding="utf-8") as told:
                serve(attempts.CALLS, asked, told)
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
        rules.give(["nft", "-f", "-"], text)

    def load(self, mode: EgressMode = "open") -> None:
        """The product's rules."""
        rules.load(EXITS._replace(mode=mode))

    def load_by(self, nft: str) -> None:
        rules.load(EXITS, nft)

    def meanwhile(
        self, name: str, how: str, words: dict[str, Any], act: str, given: dict[str, Any], times: int
    ) -> list[Any]:
        """Do something so often while a user tries something: how that ended, and what came of each."""
        to, back = self.users[name]
        to.write(json.dumps({"call": how, "with": words}) + "\n")
        to.flush()
        found = []
        for _ in range(times):
            time.sleep(0.01)
            found.append(getattr(self, act)(**given))
        return [json.loads(back.readline())["value"], found]

    def unload(self) -> None:
        self.nft("table inet minifram\ndelete table inet minifram\n")

    def counted(self) -> dict[str, int]:
        command = ("nft", "-j", "list", "counters", "table", "inet", "minifram")
        listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout
        return egress.parse_counters(listed)

    def place(self) -> None:
        rules.place(proof.CANARIES)

    def prove(self, mode: str = "", birds: tuple[str, ...] = proof.CANARIES) -> str:
        return proof.why_not(birds, Identity(AGENT, 0) if mode == "door" else None, seconds=2.0)

    # --- the resolver ----------------------------------------------------------------------------

    def start_resolver(self) -> None:
        """The product's command line, as its user with the one capability to take port 53; when it answers."""
        self.stop_resolver()
        rights = "-all,+net_bind_service"
        become = ["setpriv", f"--reuid={RESOLVER}", f"--regid={RESOLVER}", "--clear-groups", "--pdeathsig", "KILL"]
        become += [f"--inh-caps={rights}", f"--ambient-caps={rights}", "--no-new-privs", "--"]
        with self.log.open("wb") as output:
            self.resolver = subprocess.Popen(
                [*become, *resolver_command([UPSTREAM4])],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + 10
        while attempts.dns("is-up.lan", seconds=0.1)[0] != 3:
            if time.monotonic() > deadline or self.resolver.poll() is not None:
                raise AssertionError(f"it does not answer: {self.log.read_text()}")
            time.sleep(0.005)

    def stop_resolver(self) -> None:
        """With its children: those that answer by TCP hold its socket."""
        if self.resolver:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.resolver.pid, signal.SIGKILL)
            self.resolver.wait()

    def resolver_log(self) -> list[str]:
        return self.log.read_text().splitlines()

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
    try:
        serve(methods_of(near))
    finally:
        near.stop_resolver()


if __name__ == "__main__":
    main(sys.argv[1])
