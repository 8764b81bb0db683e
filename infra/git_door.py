"""The git door: what of the agent's may land in the bare repository, and who hears that main has moved.

`pre-receive` is git's hook (githooks(5)): it takes a push as a whole or refuses it as a whole, and refuses when in
doubt. All else of this program answers what a runner asks of the keep (`shared.requests`). The PM pushes by path and
meets no policy."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence

from infra.keep import taint
from infra.keep.git_door import inspection
from infra.keep.git_door.decide import refusal
from infra.keep.git_door.examined import ask_for_examinations
from infra.keep.git_door.notes import with_noted
from infra.keep.git_door.rules import read_rules
from infra.keep.known_secrets import read_known
from infra.shared.exit_codes import Exit
from infra.shared.repository.git import Git, GitError
from infra.shared.secret_shapes import redacted

GIT_SECONDS = 5.0


def main(words: Sequence[str]) -> int:
    match words:
        case ["pre-receive", "--config", config]:
            return pre_receive(config)
    return serve(words)


def pre_receive(config: str) -> int:
    """Judge the push that git describes on stdin and in the environment."""
    try:
        rules = read_rules(config)
        known = read_known(rules.secrets)
    except (OSError, ValueError) as error:
        return refuse(f"the git door cannot read its rules ({config}: {error}); tell the PM: minifram restart")
    try:
        updates = inspection.read_updates(sys.stdin.buffer)
        repository = inspection.pushed(os.getcwd(), os.environ)
        now = time.time()
        updates = inspection.inspect_all(repository, updates, rules, known, now)
        ask_for_examinations(repository, updates)
        tainted = taint.look(rules.var, repository.kept, now) if rules.web_taints else None
        if tainted:
            trace = f"{rules.var}/{taint.TRACE}"
            updates = [with_noted(update, repository.git, rules.var, trace, now) for update in updates]
        problems = [(update.ref, refusal(update, rules, tainted)) for update in updates]
    except ValueError as error:
        return refuse(str(error), known=known)
    except (OSError, GitError, MemoryError) as error:
        why = str(error) or "out of memory"
        return refuse(
            f"the git door could not look at this push ({why}); push less at once, or tell the PM", known=known
        )
    reasons = [f"{ref if ref.isprintable() else ascii(ref)}: {problem}" for ref, problem in problems if problem]
    return refuse(*reasons, known=known) if reasons else Exit.OK


def refuse(*reasons: str, known: tuple[bytes, ...] = ()) -> int:
    """git shows these words as `remote:` to the client that pushed."""
    for reason in reasons:
        # Also the name of a file or a branch can be a secret, and these words are kept in logs.
        print(f"refused: {redacted(reason, known)}", file=sys.stderr)
    print("nothing of this push was taken", file=sys.stderr)
    return Exit.DENIED


def serve(options: Sequence[str]) -> int:
    """Answer requests until SIGTERM."""
    # Only here, because every push waits for what pre-receive imports.
    import asyncio

    import structlog

    from infra.keep import arguments, settings_file
    from infra.keep.git_door.app import App
    from infra.keep.git_door.context import DoorContext
    from infra.keep.git_door.record import WorkRecord
    from infra.keep.git_door.tips import POLL_SECONDS, Watch
    from infra.shared import sockets
    from infra.shared.log import log_as_json

    parser = arguments.parser("git_door", "Answer the agent's requests to the keep.")
    words = "how often main is looked at (default: %(default)s)"
    parser.add_argument("--poll-seconds", type=float, default=POLL_SECONDS, help=words)
    given = parser.parse_args(options)
    places = arguments.places(given)
    log_as_json(structlog.PrintLoggerFactory(sys.stderr))
    log = structlog.get_logger()

    def cannot(reason: object, code: Exit) -> Exit:
        log.error("door.not_opened", reason=str(reason), exit=int(code))
        return code

    try:
        settings = settings_file.read_settings(given.settings)
        if problem := problem_with_repository(places.remote):
            return cannot(problem, Exit.NOT_FOUND)
        listening = sockets.listen(places.git_socket)
    except settings_file.SettingsError as error:
        return cannot(error, Exit.CONFIG)
    except sockets.SocketTaken as error:
        return cannot(error, Exit.CONFLICT)
    except (OSError, ValueError) as error:
        return cannot(error, Exit.FAILURE)
    record = WorkRecord(places, log)
    try:
        record.begin()
    except (GitError, OSError) as error:
        log.error("record.not_marked", reason=str(error))
    context = DoorContext(places, settings, log, record=record)

    async def until_asked_to_end() -> None:
        app = App(context, Watch(places.remote, given.poll_seconds))
        await app.server().serve(listening, lambda: log.info("door.opened", socket=places.git_socket))

    asyncio.run(until_asked_to_end())
    with contextlib.suppress(FileNotFoundError):
        os.unlink(places.git_socket)
    log.info("door.closed")
    return Exit.OK


def problem_with_repository(remote: str) -> str | None:
    """Why `remote` cannot be the agent's bare repository; None when it can."""
    what_next = "'minifram init' makes one"
    if not os.path.isdir(remote):
        return f"no repository at {remote}; {what_next}"
    try:
        bare = Git(remote, env={"GIT_DIR": remote}).within(GIT_SECONDS)("rev-parse", "--is-bare-repository")
    except GitError as error:
        return f"{remote} is not a git repository ({error}); {what_next}"
    return None if bare == "true" else f"{remote} is a repository with a work tree, expected a bare one; {what_next}"


if __name__ == "__main__":
    from infra.shared.redacted_file import guard_stderr

    guard_stderr()
    sys.exit(main(sys.argv[1:]))
