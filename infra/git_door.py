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

from infra.keep.git_door import inspection, taint
from infra.keep.git_door.decide import refusal
from infra.keep.git_door.examined import ask_for_examinations
from infra.keep.git_door.forgotten import problems_with_forgotten
from infra.keep.git_door.rules import read_rules
from infra.shared.exit_codes import Exit
from infra.shared.known_secrets import read_known
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
        state = taint.at_push(rules.var, repository.kept, now)
        updates = [taint.brought(state, repository.git, update) for update in updates]
        problems = [(update.ref, refusal(update, rules, state)) for update in updates]
        problems += problems_with_forgotten(rules.var, updates)
        if state.now:
            is_taken = not any(problem for _, problem in problems)
            taint.note_push(rules.var, repository.kept, state.now.origins, updates, is_taken, now)
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

    from infra.keep.git_door.context import DoorContext
    from infra.keep.git_door.mainline import problem_with_repository, watch_files
    from infra.keep.git_door.notifier import Notifier
    from infra.keep.git_door.request_server import RequestServer
    from infra.keep.git_door.requests import answer
    from infra.keep.git_door.taint_of_work import look_aside
    from infra.keep.git_door.witness import Witness
    from infra.shared import arguments, settings_file, sockets
    from infra.shared.log import log_as_json

    given = arguments.parser("git_door serve", "Tell listeners where main is.").parse_args(options)
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

        poll_seconds = read.intervals.poll_seconds
        witness = Witness(places, log)
        context = DoorContext(places, read, log, witness=witness)
        on_move = partial(look_aside, context)
        notifier = Notifier(listening[1], places.remote, poll_seconds, places.request_socket, on_move)
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
            witness.begin()
        except (GitError, OSError) as error:
            log.error("evidence.not_marked", reason=str(error))
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
