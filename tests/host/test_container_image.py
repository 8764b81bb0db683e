"""The image: one version for the same inputs, everything in it that the container needs and nothing that it must not
have. The heavy tests build for real, as an ordinary user."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from host.agent.init import BORN_WITH
from host.container import base
from host.container.base import Base
from host.container.image import PARTS, Inputs, build_words, cache_of, look_over
from host.container.words import CELL_UID, Image
from host.errors import CommandError
from tests.host.container_desk import WAIT_SECONDS, ContainerDesk, Workshop, a_desk, write_project
from tests.host.desk import HERE, PROJECT

EXAMINER = (HERE / "container_examiner.py").read_text()
BASE = Base("localhost/minifram-base:x", "sha-of-base", True)


def test_the_same_inputs_are_the_same_version(tmp_path: Path) -> None:
    """Every file that goes in counts, with whether it can be executed; so does the base. What stays out does not."""
    write_project(tmp_path)
    version = look_over(str(tmp_path), BASE).version
    assert look_over(str(tmp_path), BASE).version == version

    (tmp_path / "host/cli.py").write_text("changed")
    (tmp_path / "infra/__pycache__/x.pyc").write_bytes(b"changed")
    assert look_over(str(tmp_path), BASE).version == version
    seen = {version, look_over(str(tmp_path), BASE._replace(content="another")).version}
    for name in ("Containerfile", "requirements.lock", "infra/runner.py", "podman/seccomp.json", "nftables/egress.nft"):
        with (tmp_path / name).open("a") as file:
            file.write("\n")
        seen.add(look_over(str(tmp_path), BASE).version)
    (tmp_path / "infra/runner.py").chmod(0o755)
    seen.add(look_over(str(tmp_path), BASE).version)
    assert len(seen) == 8


def test_a_project_that_lacks_a_part_is_not_built(tmp_path: Path) -> None:
    """The part is named."""
    write_project(tmp_path)
    (tmp_path / "podman/hosts").unlink()
    (tmp_path / "podman/seccomp.json").unlink()
    (tmp_path / "podman/entrypoint").unlink()
    (tmp_path / "podman").rmdir()
    with pytest.raises(CommandError, match="podman is missing"):
        look_over(str(tmp_path), BASE)


def test_the_build_reaches_for_nothing_when_its_base_is_whole() -> None:
    """No network, no pull, no clock; with another base Debian's packages may have to come."""
    image = Image("localhost/minifram:v", "v")
    words = build_words("/p/Containerfile", "/cache/context", "/cache/wheels", Inputs([], BASE, "v"), image)
    partial = Inputs([], BASE._replace(is_complete=False), "v")

    assert {"--network=none", "--pull=never", "--timestamp=0", "--squash"} <= set(words)
    assert "--label=minifram.version=v" in words
    assert "--volume=/cache/wheels:/mnt/wheels:ro" in words
    assert "--network=none" not in build_words("/p/Containerfile", "/c", "/w", partial, image)


def test_what_a_build_by_hand_takes_is_the_same() -> None:
    """The list of .containerignore, the packages in the Containerfile, and the users that the seal looks for."""
    ignored = (PROJECT / ".containerignore").read_text()
    recipe = (PROJECT / "Containerfile").read_text()

    assert tuple(re.findall(r"^!(\S+)$", ignored, re.MULTILINE)) == PARTS
    packages = re.search(r'^ARG PACKAGES="(.*)"$', recipe, re.MULTILINE)
    assert packages is not None
    assert tuple(packages[1].split()) == base.PACKAGES
    assert f"agent:x:{CELL_UID}:{CELL_UID}:" in recipe
    assert {"SYSTEM.md", "COMMS.md", "infra", "spec"} <= set(PARTS) & set(BORN_WITH)
    for name in (".containerignore", "Containerfile"):  # where an image comes from is the machine's business
        assert not re.search(r"\w+\.(io|com|org)/", (PROJECT / name).read_text()), name


def test_the_cache_is_the_pm_s() -> None:
    """Below XDG_CACHE_HOME, or where the XDG specification puts it."""
    assert cache_of({"HOME": "/home/pm"}) == "/home/pm/.cache/minifram"
    assert cache_of({"HOME": "/home/pm", "XDG_CACHE_HOME": "/c"}) == "/c/minifram"
    assert cache_of({"HOME": "/home/pm", "XDG_CACHE_HOME": "c"}) == "/home/pm/.cache/minifram"


@pytest.fixture
def desk(workshop: Workshop) -> Iterator[ContainerDesk]:
    with a_desk(workshop) as ready:
        yield ready


@pytest.mark.heavy
@pytest.mark.timeout(WAIT_SECONDS)
def test_the_project_s_own_image(desk: ContainerDesk) -> None:
    """It is built with progress and a size; what runs as root in it, its users, its code and its rights are right."""
    desk.project = desk.user.directory(f"whole-{desk.agent}")
    desk.workshop.copy_project(desk.project)
    (desk.project / "spec" / "of-this-test.md").write_text(desk.agent)  # an image that is not there yet

    built = desk.call("up", "--timeout", "1")

    told = re.search(r"built (localhost/minifram:\w+): (\d+) MB, after \d+ s", built.err)
    assert told is not None, built
    assert int(told[2]) < 400
    image = told[1]
    words = (
        "run",
        "--rm",
        "--network=none",
        "--no-hosts",
        "--pull=never",
        "--entrypoint=python",
        image,
        "-c",
        EXAMINER,
    )
    seen = json.loads(desk.podman(*words))
    for what in ("raising", "writable", "left", "missing", "uncompiled"):
        assert seen[what] == [], what
    assert seen["prefix"] == "/opt/minifram/.venv"
    assert (seen["agent"][:2], seen["resolver"]) == ([1000, 1000], [990, 990])
    assert seen["hosts"].splitlines()[0].startswith("127.0.0.1 localhost")
    assert seen["modes"] == {"/mnt/remote": 0o700, "/run/minifram": 0o711, "/bot": 0o755, "/tmp": 0o1777}
    desk.podman("rmi", "--force", image)


@pytest.mark.heavy
@pytest.mark.timeout(WAIT_SECONDS)
def test_an_image_that_is_built_again_is_the_same_to_the_byte(desk: ContainerDesk) -> None:
    """Same inputs, same id: nothing in it depends on when, where or how often it was built."""
    desk.project = desk.user.directory(f"twice-{desk.agent}")
    write_project(desk.project, **{"twice.py": f"AGENT = {desk.agent!r}\n"})
    desk.done("up")
    image = desk.inspected()["ImageName"]
    first = desk.podman("image", "inspect", "--format={{.Id}}", image)
    desk.done("down")
    desk.podman("rmi", image)

    again = desk.done("up")

    assert "building the image" in again.err
    assert desk.podman("image", "inspect", "--format={{.Id}}", image) == first
    desk.done("down")
    desk.podman("rmi", image)


@pytest.mark.heavy
@pytest.mark.timeout(WAIT_SECONDS)
def test_a_base_that_is_not_there_is_named(desk: ContainerDesk) -> None:
    """podman knows no registry here, so it cannot be pulled either; nothing is started, up works again after."""
    desk.settings("sandbox: podman\npodman: {base: no-such-base}\n")

    refused = desk.call("up")

    assert refused.code == 4, refused
    assert "no-such-base (podman.base)" in refused.err
    assert not desk.is_there("container", desk.names.container)
    desk.behave("works")
    desk.done("up")
