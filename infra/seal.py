"""Seal: look → rules → no way back → proof → watch (`spec/ARCHITECTURE.md`). The first process of the container.

Nothing of the cell runs before the egress rules are loaded and proved to hold; any failure ends the container. The
capabilities that this takes are given up for ever before the watcher begins, in this same process."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from functools import partial

from infra.keep import arguments
from infra.keep.egress import packages, proof, rules
from infra.keep.egress.resolver import resolver_command
from infra.keep.egress.rules import RulesError
from infra.keep.git_door import rollback, setup
from infra.keep.repository import page
from infra.keep.seal import bare_repository, surroundings
from infra.keep.seal.capabilities import FOR_WATCHING, keep_only
from infra.keep.services.doors import Service, doors
from infra.keep.settings.check import SettingsError, read_settings
from infra.keep.supervision.zones import Zones
from infra.keep.users import leave_groups, user_named
from infra.keep.watcher_file import Report
from infra.shared.clock import timestamp
from infra.shared.exit_codes import Exit
from infra.shared.identity import Identity
from infra.shared.paths import CODE, Paths
from infra.shared.people import WATCHER
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.tip import TipBusy
from infra.watcher import watch

CELL_USER, RESOLVER_USER, EXAMINER_USER, WEB_USER = "agent", "resolver", "examiner", "web"
"""Of the image."""
EXAMINATIONS = ("/examination", "/dev/shm", "/var/tmp", "/tmp")  # noqa: S108 - only to clear what is the examiner's
"""Where they have their checkouts: memory of its own, so that nothing of the cell's can fill it by the way. The rest is
for all users."""


def main(argv: list[str]) -> int:
    parser = arguments.parser("seal", "Seal the container, then supervise its agent until asked to stop (SIGTERM).")
    parser.add_argument("--upstream", required=True, help="the resolver that names are asked of")
    parser.add_argument("--host", action="append", default=[], help="a public network of the machine's own; repeatable")
    given = parser.parse_args(argv)
    places = arguments.places(given)
    os.umask(0o022)
    try:
        zones = put_on(given.settings, places, given.upstream, given.host)
    except (SettingsError, GitError, OSError, ValueError, LookupError, RulesError) as error:
        return refuse(places, str(error))
    return watch(zones)


def put_on(settings_path: str, places: Paths, upstream: str, host: list[str]) -> Zones:
    """The whole seal. Raises SettingsError, GitError, OSError, ValueError, LookupError, RulesError."""
    found = [*surroundings.problems(surroundings.look(places), places), *bare_repository.problems(places.remote)]
    if found:
        raise PermissionError("; ".join(found))
    settings = read_settings(settings_path)
    cell, who_asks, examiner, web = map(user_named, (CELL_USER, RESOLVER_USER, EXAMINER_USER, WEB_USER))
    mode = settings.egress.mode
    leave_groups()
    shut_out(web, places.run)
    birds = proof.canaries()
    rules.load(rules.Exits(who_asks.uid or 0, web.uid or 0, (upstream,), mode, tuple(host)))
    rules.place(birds)
    keep_only(FOR_WATCHING)
    # In the keep's group, which nobody in the cell can be in: the rules tell such a one of each rejection.
    walled = Identity(cell.uid, os.getegid()) if mode == "door" else None
    why = proof.why_not(birds, walled)  # as the watcher will, without the rights that could repair it
    if why:
        raise RulesError(why)
    blob_bytes = settings.limits.blob_bytes
    git_daemon = Service(
        "git_daemon",
        setup.daemon_command(places, memory=setup.memory_bytes(blob_bytes)),
        port=setup.PORT,
        # It repeats what it is asked for; the doors' log is the keep's own words.
        output="git_daemon.log",
        env=setup.daemon_environment(places, blob_bytes),
    )
    # A user of its own: only that one may speak to the upstream.
    resolver = Service("resolver", resolver_command((upstream,)), identity=who_asks, output="resolver.log")
    return Zones(
        settings_path,
        places,
        setup.url(places),
        [*doors(settings_path, places, web, packages.port(mode)), git_daemon, resolver],
        cell,
        by_daemon=True,
        proof=partial(proof.why_not, birds, walled),
        examiner=examiner,
        scratch=EXAMINATIONS,
        code=CODE,
        also=packages.environment(mode),
    )


def shut_out(who: Identity, directory: str) -> None:
    """Nobody of this group gets at anything in a directory of ours, whatever others may (path_resolution(7)). Raises
    OSError.

    The web door has its own socket already. Who takes it over by what it reads is to reach no other door."""
    with Identity(os.geteuid(), who.gid).acting():  # who owns a directory may give it to a group that he is in
        os.chown(directory, -1, who.gid or -1)
    os.chmod(directory, 0o701)


def refuse(places: Paths, why: str) -> int:
    """Tell it on stderr, and the PM on the page; the same reason stands there once."""
    print(f"seal: {why}; the agent was not started", file=sys.stderr)
    with contextlib.suppress(OSError):  # git is about to read files that may have been planted
        keep_only(frozenset())
    title = "watcher: the container could not be sealed, the agent was not started"
    once = hashlib.sha256(why.encode()).hexdigest()[:16]
    try:
        if once not in page.reported(Git(places.remote), WATCHER):
            rollback.report(places, Report(id=once, at=timestamp(time.time()), title=title, text=f"{why}."))
    except (GitError, TipBusy, OSError, ValueError) as error:
        print(f"seal: this could not be written to COMMS.md: {error}", file=sys.stderr)
    return Exit.DENIED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
