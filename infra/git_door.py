"""The git door: what of the agent's may land in the bare repository, and who hears that main has moved.

`pre-receive` is git's hook (githooks(5)): it takes a push as a whole or refuses it as a whole, and refuses when in
doubt. `serve` tells whoever listens on a socket where main is, and answers on another one what a runner asks of the
keep (`contract.requests`). The PM pushes by path and meets no policy."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence

from infra.keep.git_door import inspection
from infra.keep.git_door.cargo import read_known
from infra.keep.git_door.decide import Update, refusal
from infra.keep.git_door.examined import ask_for_examinations
from infra.keep.git_door.rules import Rules, read_rules
from infra.shared.exit_codes import Exit
from infra.shared.repository.git import GitError
from infra.shared.secret_shapes import redacted

USAGE = """\
usage: python -m infra.git_door serve --settings FILE [--bot DIR] [--remote DIR] [--run DIR] [--var DIR]
       python -m infra.git_door pre-receive --config FILE"""


def main(words: Sequence[str]) -> int:
    match words:
        case ["pre-receive", "--config", config]:
            return pre_receive(config)
        case ["serve", *options]:
            return serve(options)
    print(USAGE, file=sys.stderr)
    return Exit.USAGE


def pre_receive(config: str) -> int:
    """Judge the push that git describes on stdin and in the environment."""
    try:
        rules = read_rules(config)
        known = read_known(rules.secrets)
    except (OSError, ValueError) as error:
        return refuse(f"the git door cannot read its rules ({config}: {error}); tell the PM: minifram restart")
    try:
        lines = inspection.read_lines(sys.stdin.buffer)
        deadline = time.monotonic() + inspection.INSPECTION_SECONDS
        repository = inspection.pushed(os.getcwd(), os.environ, deadline)
        updates = inspection.inspect_all(repository, lines, rules, known)
        ask_for_examinations(repository, updates)
    except ValueError as error:
        return refuse(str(error), known=known)
    except (OSError, GitError, MemoryError) as error:
        why = str(error) or "out of memory"
        return refuse(
            f"the git door could not look at this push ({why}); push less at once, or tell the PM", known=known
        )
    taken_over = _taken_over(updates, rules)
    if taken_over:
        return refuse(taken_over, known=known)
    problems = [(update.ref, refusal(update, rules)) for update in updates]
    reasons = [f"{ref if ref.isprintable() else ascii(ref)}: {problem}" for ref, problem in problems if problem]
    return refuse(*reasons, known=known) if reasons else Exit.OK


def _taken_over(updates: Sequence[Update], rules: Rules) -> str:
    """Words for a runner of before, whose push of the page was taken as data; empty for any other push."""
    if not any(update.page for update in updates):
        return ""
    # Only here: every push waits for what is imported, and few change the page.
    from infra.keep.git_door import old_pages
    from infra.shared.door import ask

    push = next(filter(None, map(old_pages.old_push, updates)), None)
    if push is None:
        return ""
    try:
        said = old_pages.hand_over(push, lambda report: ask(rules.requests, report), time.time())
    except OSError as error:
        said = f"nothing of it was taken, since the keep does not answer ({error}); push again"
    return f"the keep and the PM alone write COMMS.md, you report by ending your turn. {said}"


def refuse(*reasons: str, known: tuple[bytes, ...] = ()) -> int:
    """What is said here is what git shows as `remote:` to whoever pushed."""
    for reason in reasons:
        # Also the name of a file or a branch can be a secret, and what is said here is kept in logs.
        print(f"refused: {redacted(reason, known)}", file=sys.stderr)
    print("nothing of this push was taken", file=sys.stderr)
    return Exit.DENIED


def serve(options: Sequence[str]) -> int:
    """Tell listeners where main is, and answer requests, until SIGTERM."""
    # Only here, because every push waits for what pre-receive imports.
    import signal

    import structlog

    from infra.keep.git_door.mainline import problem_with_repository, watch_files
    from infra.keep.git_door.notifier import Notifier
    from infra.keep.git_door.request_server import PATIENCE_SECONDS, RequestServer
    from infra.keep.git_door.request_world import World
    from infra.keep.git_door.verbs import Verbs
    from infra.keep.git_door.witness import Witness
    from infra.shared import arguments, settings, sockets

    given = arguments.parser("git_door serve", "Tell listeners where main is.").parse_args(options)
    places = arguments.places(given)
    log_as_json()
    log = structlog.get_logger()

    def cannot(reason: object, code: Exit) -> Exit:
        log.error("door.not_opened", reason=str(reason), exit=int(code))
        return code

    try:
        given_settings = settings.read_settings(given.settings)
    except settings.SettingsError as error:
        return cannot(error, Exit.CONFIG)
    problem = problem_with_repository(places.remote)
    if problem:
        return cannot(problem, Exit.NOT_FOUND)
    poll_seconds = given_settings.intervals.poll_seconds
    listening = contextlib.ExitStack()
    try:
        # The notifier's is the last: whoever waits for it finds both.
        asked = listening.enter_context(sockets.listen(places.request_socket))
        listening.callback(_remove, places.request_socket)
        server = listening.enter_context(sockets.listen(places.git_socket))
        listening.callback(_remove, places.git_socket)
    except sockets.SocketTaken as error:
        listening.close()
        return cannot(error, Exit.CONFLICT)
    except (OSError, ValueError) as error:
        listening.close()
        return cannot(error, Exit.FAILURE)

    notifier = Notifier(server, places.remote, poll_seconds, places.request_socket)
    signal.signal(signal.SIGTERM, lambda *_: notifier.stop())
    signal.signal(signal.SIGINT, lambda *_: notifier.stop())
    signal.set_wakeup_fd(notifier.waker, warn_on_full_buffer=False)
    try:
        end_watch = watch_files(places.remote, notifier.wake)
    except OSError as error:
        end_watch = None
        log.warning("door.only_polling", reason=str(error), every_seconds=poll_seconds)
    witness = Witness(places, log)
    try:
        witness.begin()
    except (GitError, OSError) as error:
        log.error("evidence.not_marked", reason=str(error))
    verbs = Verbs(World(places, given_settings, log, evidence_for=witness.evidence_for, unit_done=witness.unit_done))
    requests = RequestServer(asked, verbs.answer, log, PATIENCE_SECONDS)
    requests.start()
    log.info("door.opened", socket=places.git_socket, requests=places.request_socket, remote=places.remote)
    try:
        notifier.run()
    finally:
        signal.set_wakeup_fd(-1)
        if end_watch:
            end_watch()
        requests.stop()
        listening.close()
        notifier.close()
    log.info("door.closed")
    return Exit.OK


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def log_as_json() -> None:
    import structlog

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
