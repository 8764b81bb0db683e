"""The git door: what of the agent's may land in the bare repository, and who hears that main has moved.

`pre-receive` is git's hook (githooks(5)): it takes a push as a whole or refuses it as a whole, and refuses when in
doubt. `serve` tells listeners on a socket where main is, and answers on another one what a runner asks of the keep
(`shared.requests`). The PM pushes by path and meets no policy."""

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
    """Tell listeners where main is, and answer requests, until SIGTERM."""
    # Only here, because every push waits for what pre-receive imports.
    import signal
    from functools import partial

    import structlog

    from infra.keep import arguments, settings_file
    from infra.keep.git_door.context import DoorContext
    from infra.keep.git_door.mainline import problem_with_repository, watch_files
    from infra.keep.git_door.notifier import Notifier
    from infra.keep.git_door.record import WorkRecord
    from infra.keep.git_door.request_server import RequestServer
    from infra.keep.git_door.requests import answer
    from infra.shared import sockets
    from infra.shared.log import log_as_json

    parser = arguments.parser("git_door serve", "Tell listeners where main is.")
    words = "how often main is looked at when no file event arrives (default: %(default)s)"
    parser.add_argument("--poll-seconds", type=float, default=1.0, help=words)
    given = parser.parse_args(options)
    places = arguments.places(given)
    log_as_json(structlog.PrintLoggerFactory(sys.stderr))
    log = structlog.get_logger()

    def cannot(reason: object, code: Exit) -> Exit:
        log.error("door.not_opened", reason=str(reason), exit=int(code))
        return code

    with contextlib.ExitStack() as closing:
        try:
            read = settings_file.read_settings(given.settings)
            problem = problem_with_repository(places.remote)
            if problem:
                return cannot(problem, Exit.NOT_FOUND)
            # The notifier's is the last: a client that waits for it finds both.
            listening = []
            for path in (places.request_socket, places.git_socket):
                listening.append(closing.enter_context(sockets.listen(path)))
                closing.callback(_remove, path)
        except settings_file.SettingsError as error:
            return cannot(error, Exit.CONFIG)
        except sockets.SocketTaken as error:
            return cannot(error, Exit.CONFLICT)
        except (OSError, ValueError) as error:
            return cannot(error, Exit.FAILURE)

        poll_seconds = given.poll_seconds
        record = WorkRecord(places, log)
        context = DoorContext(places, read, log, record=record)
        notifier = Notifier(listening[1], places.remote, poll_seconds, places.request_socket)
        closing.callback(notifier.close)
        signal.signal(signal.SIGTERM, lambda *_: notifier.stop())
        signal.signal(signal.SIGINT, lambda *_: notifier.stop())
        signal.set_wakeup_fd(notifier.waker, warn_on_full_buffer=False)
        closing.callback(signal.set_wakeup_fd, -1)
        try:
            closing.callback(watch_files(places.remote, notifier.wake))
        except OSError as error:
            log.warning("door.only_polling", reason=str(error), every_seconds=poll_seconds)
        try:
            record.begin()
        except (GitError, OSError) as error:
            log.error("record.not_marked", reason=str(error))
        requests = RequestServer(listening[0], partial(answer, context), log)
        requests.start()
        closing.callback(requests.stop)
        log.info("door.opened", socket=places.git_socket, requests=places.request_socket, remote=places.remote)
        notifier.run()
    log.info("door.closed")
    return Exit.OK


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


if __name__ == "__main__":
    from infra.shared.redacted_file import guard_stderr

    guard_stderr()
    sys.exit(main(sys.argv[1:]))
