"""Two agents of one PM: what the one uses up is not the other's."""

from __future__ import annotations

import secrets

import pytest

from tests.cell.loop.waiting import wait_for
from tests.host.test_container import words_of
from tests.sealed.support.rootless import Rootless

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(200)]

LIMIT = 100


def forks(number: int, end: str) -> list[str]:
    return ["sh", "-c", f"n=0; while [ $n -lt {number} ]; do sleep 60 & n=$((n+1)); done; echo $n; {end}"]


def neighbour_forks(user: Rootless, *namespace: str) -> bool:
    """The cell of one container has nearly all the processes that it may have: can that of another start half?"""
    words = ["--network=none", "--user=1000", f"--ulimit=nproc={LIMIT}:{LIMIT}", *namespace]
    greedy = f"greedy-{secrets.token_hex(4)}"
    user.podman("run", "--detach", f"--name={greedy}", *words, user.base(), *forks(LIMIT - 10, "wait"))
    try:
        ready = [str(LIMIT - 10)]
        wait_for(lambda: user.podman("logs", greedy).stdout.split() == ready, "its processes", 60.0)
        modest = user.podman("run", "--rm", *words, user.base(), *forks(LIMIT // 2, "kill -9 -1"), check=False)
        return modest.stdout.split() == [str(LIMIT // 2)]
    finally:
        user.podman("rm", "--force", "--time=0", greedy)


@pytest.mark.attack("S29")
def test_one_agent_s_processes_are_not_counted_for_another(user: Rootless) -> None:
    """RLIMIT_NPROC is counted for each user of a user namespace: the control shares the PM's."""
    own = [word for word in words_of() if word.startswith(("--uidmap", "--gidmap", "--userns"))]
    assert neighbour_forks(user, *own)
    assert not neighbour_forks(user, "--userns=host")
