"""Seal: look → rules → proof → no way back → watch (`spec/ARCHITECTURE.md`). The first process of the container.

Nothing of the cell runs before the egress rules are loaded and proved to hold; any failure ends the container. The
capabilities that this takes are given up for ever before the watcher begins, in this same process."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from secrets import token_hex

from infra.keep import arguments
from infra.keep.egress import packages, seal_egress
from infra.keep.egress.resolver import resolver_command
from infra.keep.egress.rules import RulesError
from infra.keep.egress.seal_egress import Users
from infra.keep.git_door import setup
from infra.keep.git_door.setup import memory_bytes
from infra.keep.seal import bare_repository, loopback, surroundings
from infra.keep.seal.capabilities import FOR_WATCHING, keep_only
from infra.keep.services import health_checks
from infra.keep.services.services import Service, doors
from infra.keep.settings import Settings
from infra.keep.settings_file import SettingsError, read_settings
from infra.keep.supervision import main_branch
from infra.keep.supervision.zones import Zones
from infra.keep.watcher_file import Report
from infra.shared import report_titles
from infra.shared.clock import timestamp
from infra.shared.exit_codes import Exit
from infra.shared.files import write_whole
from infra.shared.identity import Identity, leave_groups, user_named
from infra.shared.paths import Paths
from infra.shared.repository.git import GitError
from infra.shared.repository.tip import TipBusy
from infra.watcher import watch

CELL_USER, RESOLVER_USER, EXAMINER_USER, WEB_USER = "agent", "resolver", "examiner", "web"
"""Of the image."""
EXAMINATIONS = "/examination"
"""Where they have their checkouts: memory of its own, so that nothing of the cell's can fill it by the way."""


class Refused(Exception):
    """The seal cannot be put on; says why."""


def main(argv: list[str]) -> int:
    parser = arguments.parser("seal", "Seal the container, then supervise its agent until asked to stop (SIGTERM).")
    parser.add_argument("--upstream", required=True, help="the resolver that names are asked of")
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NETWORK",
        help="a public network of the machine's own; repeatable",
    )
    given = parser.parse_args(argv)
    places = arguments.places(given)
    os.umask(0o022)
    try:
        zones = put_on(given.settings, places, given.upstream, given.host)
    except (Refused, SettingsError, GitError, OSError, ValueError, LookupError, RulesError) as error:
        return refuse(places, str(error))
    forget_refusal(places)
    return watch(zones)


def put_on(settings_path: str, places: Paths, upstream: str, host: list[str]) -> Zones:
    """The whole seal. Raises Refused, SettingsError, GitError, OSError, ValueError, LookupError, RulesError."""
    found = list(surroundings.problems(surroundings.look(places, secrets(places)), places))
    found += bare_repository.problems(places.remote)
    if found:
        raise Refused("; ".join(found))
    settings = read_settings(settings_path)
    cell, who_asks, examiner, web = map(user_named, (CELL_USER, RESOLVER_USER, EXAMINER_USER, WEB_USER))
    mode = settings.egress.mode
    leave_groups()
    shut_out(web, places.run)
    prove = seal_egress.put_on(settings.egress, upstream, Users(who_asks, web, cell), host)
    loopback.answer_at_once()
    keep_only(FOR_WATCHING)
    why = prove()  # again, as the watcher will, without the rights that could repair it
    if why:
        raise Refused(why)
    return Zones(
        settings_path,
        places,
        setup.url(places),
        [
            *doors(settings_path, places, web, packages.port(mode)),
            git_daemon(places, settings),
            resolver(upstream, who_asks),
        ],
        cell,
        by_daemon=True,
        proof=prove,
        examiner=examiner,
        scratch=EXAMINATIONS,
        also=packages.environment(mode),
    )


def shut_out(who: Identity, directory: str) -> None:
    """Nobody of this group gets at anything in a directory of ours, whatever others may (path_resolution(7)). Raises
    OSError.

    The web door has its own socket already. Who takes it over by what it reads is to reach no other door."""
    with Identity(os.geteuid(), who.gid).acting():  # who owns a directory may give it to a group that he is in
        os.chown(directory, -1, who.gid or -1)
    os.chmod(directory, 0o701)


def secrets(places: Paths) -> list[str]:
    """The files that podman put where the model door looks. Raises OSError."""
    try:
        return [f"{places.secrets}/{name}" for name in sorted(os.listdir(places.secrets))]
    except FileNotFoundError:  # the model needs no key
        return []


def git_daemon(places: Paths, settings: Settings) -> Service:
    """The git door's way in for the cell's clones."""
    env = setup.daemon_environment(places, settings.limits.blob_bytes)
    return Service(
        "git_daemon",
        setup.daemon_command(places, memory=memory_bytes(settings.limits.blob_bytes)),
        port=setup.PORT,
        question=health_checks.of_git_daemon(f"/{os.path.basename(places.remote)}"),
        # It repeats what it is asked for; the doors' log is the keep's own words.
        output="git_daemon.log",
        env=env,
    )


def resolver(upstream: str, who: Identity) -> Service:
    """DNS for everything in the container, as a user of its own: only that may speak to the upstream."""
    return Service("resolver", resolver_command((upstream,)), identity=who, output="resolver.log")


def refuse(places: Paths, why: str) -> int:
    """Report it on stderr, and to the PM on the page; the same reason stands there once."""
    print(f"seal: {why}; the agent was not started", file=sys.stderr)
    with contextlib.suppress(OSError):  # git is about to read files that may have been planted
        keep_only(frozenset())
    path = f"{places.var}/{REFUSAL}"
    title = report_titles.watcher("the container could not be sealed, the agent was not started")
    try:
        if _last_refusal(path) != why:
            told = Report(id=token_hex(8), at=timestamp(time.time()), title=title, text=f"{why}.")
            main_branch.report(places, told)
            write_whole(path, json.dumps(why).encode(), 0o600)
    except (GitError, TipBusy, OSError, ValueError) as error:
        print(f"seal: this could not be written to COMMS.md: {error}", file=sys.stderr)
    return Exit.DENIED


REFUSAL = "refused.json"
"""In the keep's state: the last reason why the seal could not be put on."""


def _last_refusal(path: str) -> object:
    try:
        with open(path, "rb") as file:
            return json.load(file)
    except (FileNotFoundError, ValueError):
        return None


def forget_refusal(places: Paths) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{places.var}/{REFUSAL}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
