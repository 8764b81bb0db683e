"""The image: one version for the same inputs, everything in it that the container needs and nothing that it must not
have. The heavy tests build for real, as an ordinary user."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from host.container.image import Base, Inputs, build_command, cache_of, fetch_command, inputs_of, packages
from host.container.words import CELL_UID
from host.errors import CommandError
from host.project import image_files
from tests.host.container_desk import WAIT_SECONDS, ContainerDesk, Workshop, a_desk, write_project
from tests.host.desk import HERE, PROJECT

EXAMINER = (HERE / "container_examiner.py").read_text()
BASE = Base("localhost/minifram-base:x", "sha-of-base", True)


def test_the_same_inputs_are_the_same_version(tmp_path: Path) -> None:
    """Every file that goes in counts, with whether it can be executed; so does the base. What stays out does not."""
    write_project(tmp_path)
    version = inputs_of(str(tmp_path), BASE).version
    assert inputs_of(str(tmp_path), BASE).version == version

    (tmp_path / "host/cli.py").write_text("changed")
    (tmp_path / "infra/__pycache__/x.pyc").write_bytes(b"changed")
    assert inputs_of(str(tmp_path), BASE).version == version
    seen = {version, inputs_of(str(tmp_path), BASE._replace(content="another")).version}
    for name in ("Containerfile", "requirements.lock", "infra/runner.py", "podman/seccomp.json", "nftables/egress.nft"):
        with (tmp_path / name).open("a") as file:
            file.write("\n")
        seen.add(inputs_of(str(tmp_path), BASE).version)
    (tmp_path / "infra/runner.py").chmod(0o755)
    seen.add(inputs_of(str(tmp_path), BASE).version)
    assert len(seen) == 8


def test_a_project_that_lacks_a_part_is_not_built(tmp_path: Path) -> None:
    """The part is named."""
    write_project(tmp_path)
    (tmp_path / "podman/hosts").unlink()
    (tmp_path / "podman/seccomp.json").unlink()
    (tmp_path / "podman/entrypoint").unlink()
    (tmp_path / "podman").rmdir()
    with pytest.raises(CommandError, match="podman is missing"):
        inputs_of(str(tmp_path), BASE)


def test_the_build_reaches_for_nothing_when_its_base_is_whole() -> None:
    """No network, no pull, no clock; with another base Debian's packages may have to come."""
    words = build_command("/p/Containerfile", "/cache/context", "/cache/wheels", Inputs([], BASE, "v"))
    partial = Inputs([], BASE._replace(is_complete=False), "v")

    assert {"--network=none", "--pull=never", "--timestamp=0", "--squash"} <= set(words)
    assert "--label=minifram.version=v" in words
    assert "--volume=/cache/wheels:/mnt/wheels:ro" in words
    assert "--network=none" not in build_command("/p/Containerfile", "/c", "/w", partial)


def test_what_a_build_by_hand_takes_is_the_same() -> None:
    """The packages in the Containerfile, the user that the seal looks for, and no address of a registry."""
    recipe = (PROJECT / "Containerfile").read_text()

    assert {"git", "nftables", "python3.11-venv", "util-linux"} <= set(packages(str(PROJECT)))
    assert f"agent:x:{CELL_UID}:{CELL_UID}:" in recipe
    for name in (".containerignore", "Containerfile"):  # where an image comes from is the machine's business
        assert not re.search(r"\w+\.(io|com|org)/", (PROJECT / name).read_text()), name


def test_wheels_are_those_that_the_image_s_python_can_use() -> None:
    """Whatever Python and machine fetch them: only wheels, only as locked, for Python 3.11 and Debian 12's glibc."""
    words = fetch_command("/p/requirements.lock", "/cache/new", "aarch64")

    assert {"--require-hashes", "--only-binary=:all:", "--no-deps", "--python-version=3.11"} <= set(words)
    platforms = [word.partition("=")[2] for word in words if word.startswith("--platform")]
    assert platforms[0] == "manylinux_2_36_aarch64"
    assert "manylinux2014_aarch64" in platforms
    assert not any("2_37" in platform for platform in platforms)


APT = """\
#!/bin/sh
case $1 in
indextargets)
    echo '/k.gpg|http://mirror.invalid/debian/|HOST|main'
    echo '/k.gpg|http://mirror.invalid/debian/|HOST|main'
    echo '$(SIGNED_BY)|http://mirror.invalid/debian/|HOST-updates|main'
    echo '$(SIGNED_BY)|http://mirror.invalid/debian/|HOST-backports|main'
    echo '$(SIGNED_BY)|http://other.invalid/apt/|HOST|stable'
    echo '$(SIGNED_BY)|http://other.invalid/apt/|HOST-pgdg|main' ;;
shell) echo "proxy='http://proxy.invalid:3128'" ;;
esac
"""
MMDEBSTRAP = """\
#!/bin/sh
{ for word in "$@"; do echo "$word"; done; echo "proxy $http_proxy"; cat; } >"$SEEN"
"""


def test_a_base_is_made_of_the_machine_s_own_debian_sources(tmp_path: Path) -> None:
    """Only Debian's suites and their component main, each once, with its key, by the machine's proxy."""
    host = re.search(r"^VERSION_CODENAME=(\w+)$", Path("/etc/os-release").read_text(), re.MULTILINE)
    assert host
    for name, text in {"apt-get": APT, "apt-config": APT, "mmdebstrap": MMDEBSTRAP}.items():
        (tmp_path / name).write_text(text.replace("HOST", host[1]))
        (tmp_path / name).chmod(0o755)
    seen = tmp_path / "seen"
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SEEN": str(seen)}
    subprocess.run(
        [PROJECT / "scripts/debian-base", "sid", "minbase", "/x.tar", "git", "make"], env=environ, check=True
    )

    lines = seen.read_text().splitlines()
    assert {"--mode=unshare", "--variant=minbase", "--include=git,make"} <= set(lines)
    assert lines[lines.index("sid") :] == [
        *("sid", "/x.tar", "-", "proxy http://proxy.invalid:3128"),
        "deb [signed-by=/k.gpg] http://mirror.invalid/debian/ sid main",
        "deb http://mirror.invalid/debian/ sid-updates main",
    ]


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
    """What runs as root in it, its users, its code, its rights and its size are right. `tests.sealed.prepare` has built
    it as `up` would; where nobody has, `up` does."""
    desk.project = desk.user.directory(f"whole-{desk.agent}")
    desk.workshop.copy_project(desk.project)

    desk.call("up", "--timeout", "1")

    image = str(desk.inspected()["ImageName"])
    inside = ("run", "--rm", "--network=none", "--no-hosts", "--pull=never")
    size = desk.podman(
        *inside, "--entrypoint=du", image, "-x", "--summarize", "--apparent-size", "--block-size=MB", "/"
    )
    assert int(size.partition("MB")[0]) < 400
    seen = json.loads(desk.podman(*inside, "--entrypoint=python", image, "-c", EXAMINER))
    for what in ("raising", "writable", "left", "missing", "uncompiled"):
        assert seen[what] == [], what
    assert seen["prefix"] == "/opt/minifram/.venv"
    assert (seen["agent"][:2], seen["resolver"], seen["web"]) == ([1000, 1000], [990, 990], [970, 970])
    assert seen["hosts"].splitlines()[0].startswith("127.0.0.1 localhost")
    assert seen["modes"] == {"/mnt/remote": 0o700, "/run/minifram": 0o711, "/bot": 0o755, "/tmp": 0o1777}


@pytest.mark.heavy
@pytest.mark.timeout(WAIT_SECONDS)
def test_an_image_that_is_built_again_is_the_same_to_the_byte(desk: ContainerDesk) -> None:
    """Same inputs, same id: nothing in it depends on when, where or how often it was built. Progress and size are
    told."""
    desk.project = desk.user.directory(f"twice-{desk.agent}")
    write_project(desk.project, **{"twice.py": f"AGENT = {desk.agent!r}\n"})
    desk.done("up")
    image = desk.inspected()["ImageName"]
    first = desk.podman("image", "inspect", "--format={{.Id}}", image)
    desk.done("down")
    desk.podman("rmi", image)

    again = desk.done("up")

    assert "building the image" in again.err
    assert re.search(rf"built {image}: \d+ MB, after \d+ s", again.err)
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


def test_the_image_runs_the_code_that_is_installed() -> None:
    """So a watcher in a container says the same of its code as the command that asks it."""
    held = {source.path for source in image_files(str(PROJECT))}
    every = (path for path in (PROJECT / "infra").rglob("*") if path.suffix in (".py", ".yaml"))
    modules = {str(path.relative_to(PROJECT)) for path in every}
    assert modules == {path for path in held if path.startswith("infra/") and path.endswith((".py", ".yaml"))}
