"""The user that runs the tests' containers."""

from __future__ import annotations

import pytest

from tests.sealed.support import rootless
from tests.sealed.support.rootless import Rootless, Unprepared


def test_a_missing_program_is_named_with_what_brings_it() -> None:
    """Tests of containers never pass by being left out: a machine that cannot run them is told what it lacks."""
    with pytest.raises(Unprepared, match=r"no-such-program is not on PATH.*apt-get install .* no-such-package"):
        rootless._need("no-such-program", "no-such-package")
    rootless._need("sh", "dash")


@pytest.mark.heavy
def test_containers_are_run_by_an_ordinary_user(user: Rootless) -> None:
    """Root of the container is that user on the host, and others of the container are nobody there."""
    assert user.uid >= 1000
    words = ("run", "--rm", "--network=none", *user.limits(), user.base(), "cat", "/proc/self/uid_map")
    first, second = user.podman(*words).stdout.splitlines()
    assert first.split() == ["0", str(user.uid), "1"]
    assert int(second.split()[1]) >= 100_000
    assert user.podman("no-such-verb", check=False).returncode == 125
    with pytest.raises(AssertionError, match="no-such-verb"):
        user.podman("no-such-verb")
