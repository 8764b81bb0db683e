"""A candidate's runner as a process: started as the watcher starts one, with less of the machine, and ended with all
that it started. What it leaves behind is read without following links, without blocking and with a bound."""

from __future__ import annotations

import json
import math
import os
import resource
import secrets
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psutil

from infra.keep import watcher_file
from infra.keep.boot_files import boot_words, last_words, open_error_log
from infra.keep.git_door.setup import at_most
from infra.keep.rehearsal.findings import Outage, as_outage
from infra.keep.rehearsal.scratch import RehearsedVersion, Scratch
from infra.keep.rehearsal.verdict import ending
from infra.keep.services import children, processes
from infra.shared.boot import Boot, Limits
from infra.shared.boot_log import FAILED, BootLine
from infra.shared.files import write_whole
from infra.shared.paths import BOOT_LOG, ERROR_LOG, TRANSCRIPTS
from infra.shared.safe_files import Below, Entry

MEMORY_BYTES = 4 << 30
FILE_BYTES = 64 << 20
"""Of one file."""
PROCESSES = 256
"""More than its user has already."""
CPU_SECONDS = 10.0
"""Of one process, besides the time that the whole life has."""
ROTATE_OVER = 1 << 30
ERROR_CHARS = 200
_CONVERSATION_BYTES = 32 * 1024


@dataclass(frozen=True)
class CandidateRunner:
    """One boot of the version that is rehearsed."""

    boot: Boot
    process: subprocess.Popen[bytes]
    pidfd: int

    @property
    def checkout(self) -> str:
        return self.boot.places.checkout(self.boot.branch)

    @property
    def files(self) -> Below:
        return Below(self.boot.places.bot)

    def words(self) -> dict[str, BootLine]:
        return boot_words(self.files, self.checkout, self.boot.id, self.boot.branch, self.boot.commit)

    def is_over(self) -> bool:
        return self.process.poll() is not None

    def how_it_ended(self) -> str:
        """For a process that is over."""
        failed = self.words().get(FAILED)
        reason = failed.details.get("reason", "") if failed else ""
        return processes.how_it_ended(self.process.returncode) + (f" ({reason})" if reason else "")

    def ask_to_end(self) -> None:
        processes.ask_group(self.process.pid, signal.SIGTERM)

    def end(self, doors: frozenset[int]) -> list[str]:
        """Kill it and all that it started, wherever that has gone; gives what it had left. Raises TimeoutError."""
        if not self.is_over():
            processes.ask_group(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.pidfd)
        return processes.sweep(doors)


def start(scratch: Scratch, version: RehearsedVersion, commit: str, reason: str, seconds: float) -> CandidateRunner:
    """Raises Outage."""
    places = scratch.places
    limits = Limits(
        bash_seconds=seconds,
        run_steps=20,
        run_seconds=seconds,
        validation_seconds=seconds,
        door_seconds=seconds,
        context_tokens=100_000,
    )
    boot = Boot(secrets.token_hex(16), "main", commit, reason, places.remote, "merge", places, limits)
    with as_outage("the candidate's runner cannot be started"):
        errors, _ = open_error_log(Below(places.bot), places.main_checkout, ROTATE_OVER)
        try:
            command = children.runner_command(version.python)
            process = children.spawn(boot, command, errors, under=bounded(seconds))
        finally:
            os.close(errors)
        # As a watcher does, for the git door: who may speak for the agent.
        noted = watcher_file.WatcherFile(runner_pid=process.pid, branch=boot.branch, commit=boot.commit)
        write_whole(places.watcher_state, watcher_file.encode(noted))
        return CandidateRunner(boot, process, os.pidfd_open(process.pid))


def bounded(seconds: float) -> list[str]:
    """Ended with us, and with limits of its own; where the machine allows less than these, it has less."""
    # The kernel counts the threads of all that our user runs against the limit of each process.
    threads = 0
    for process in psutil.process_iter():
        try:
            threads += process.num_threads() if process.uids().real == os.getuid() else 0
        except psutil.Error:
            continue
    wanted = (
        ("as", MEMORY_BYTES, resource.RLIMIT_AS),
        ("fsize", FILE_BYTES, resource.RLIMIT_FSIZE),
        ("cpu", math.ceil(seconds + CPU_SECONDS), resource.RLIMIT_CPU),
        ("nproc", threads + PROCESSES, resource.RLIMIT_NPROC),
        ("core", 0, resource.RLIMIT_CORE),
    )
    limits = [f"--{name}={at_most(most, limit)}" for name, most, limit in wanted]
    return ["setpriv", "--pdeathsig", "KILL", "prlimit", *limits, "--"]


def waited_seconds() -> float:
    """For how long, since the machine came up, some program had to wait for a processor or a disk
    (/proc/pressure); always 0 on a machine that does not say."""
    waited = 0
    for name in ("cpu", "io"):
        try:
            with open(f"/proc/pressure/{name}", encoding="ascii") as file:
                waited += int(file.readline().rpartition("total=")[2])
        except (OSError, ValueError):
            continue
    return waited / 1e6


def log_bytes(scratch: Scratch) -> int:
    status = Below(scratch.places.bot).status(f"{scratch.places.main_checkout}/{ERROR_LOG}")
    return status.st_size if status else 0


def bytes_below(path: str, enough: int) -> int:
    """What lies below a directory takes, a page of 4 KiB at least for each name; not counted far beyond `enough`."""
    taken = 0
    for entry in Below(path).walk(depth=1000, most=enough // 4096 + 1):
        if isinstance(entry, Entry):
            taken += max(4096, entry.status.st_blocks * 512)
        if taken > enough:
            break
    return taken


def transcript(scratch: Scratch, steps: list[str]) -> str:
    """The end of what the candidate said and did, in `TRANSCRIPT_CHARS`."""
    bot, checkout = Below(scratch.places.bot), scratch.places.main_checkout
    parts = (
        ("rehearsal", "\n".join(steps), 900),
        ("boot log", bot.tail(f"{checkout}/{BOOT_LOG}", 1000).decode(errors="replace"), 700),
        ("errors.log", last_words(bot, checkout, 0), 1400),
        ("last conversation", _last_conversation(bot, checkout), 800),
    )
    shown = (f"{name}:\n{ending(text.rstrip(), most)}" for name, text, most in parts if text.strip())
    return ending("\n\n".join(shown))


def first_error(scratch: Scratch) -> str:
    """What the first of its tools that failed said, for a reason; empty when none did."""
    bot = Below(scratch.places.bot)
    for fact in _facts(_newest_conversation(bot, scratch.places.main_checkout)):
        match fact:
            case {"call": {"name": str(tool)}, "status": str(status), "content": str(words)} if status != "ok":
                return f" ({words.strip()[:ERROR_CHARS] or tool})"
    return ""


def _last_conversation(bot: Below, checkout: str) -> str:
    """What tools and model said last, as the newest one records it; its last bytes, if it has another form."""
    text = _newest_conversation(bot, checkout)
    answers, words = list[str](), list[str]()
    for fact in _facts(text):
        match fact:
            case {"call": {"name": str(tool)}, "content": str(content)}:
                answers.append(f"{tool}: {content[-300:]}")
            case {"kind": "answered", "content": [*parts]}:
                words += [f"model: {part['text'][-300:]}" for part in parts if _has_text(part)]
            case {"kind": "ended", "end": str(end)}:
                words.append(f"ended: {end}")
    return "\n".join([*answers[-4:], *words[-2:]]) or text


def _has_text(part: object) -> bool:
    return isinstance(part, dict) and bool(part.get("text")) and isinstance(part["text"], str)


def _newest_conversation(bot: Below, checkout: str) -> str:
    directory = f"{checkout}/{TRANSCRIPTS}"
    try:
        newest = max((name for name in bot.names(directory, 1000) if name.endswith(".jsonl")), default="")
    except OSError:
        return ""
    return bot.tail(f"{directory}/{newest}", _CONVERSATION_BYTES).decode(errors="replace")


def _facts(text: str) -> Iterator[Any]:
    """Of lines that are JSON: it is the candidate's own record."""
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            continue


def refuse_full_disk(scratch: Scratch) -> None:
    """Raises Outage when nothing more can be written, or no program started."""
    with as_outage(f"{scratch.root} takes no more files, or no program can be started"):
        path = f"{scratch.root}/w"
        with open(path, "wb") as file:
            file.write(bytes(1 << 16))
            file.flush()
            os.fsync(file.fileno())
        os.unlink(path)
        if subprocess.run(["true"], check=False).returncode != 0:
            raise Outage("the command 'true' fails on this machine")
