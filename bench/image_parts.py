"""What takes the room in an image: run within it by a bare Python, prints `{part: [bytes, of them bytecode, files]}`.

A file belongs to the Debian package that put it there, to the Python package in whose folder it lies, or to what the
image's recipe made; bytecode belongs to whom its source belongs to."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator

FAMILIES = (
    (("libpython3", "python3"), "Debian: Python 3.11 with its library"),
    (("perl", "libperl"), "Debian: Perl, which git depends on"),
    (("libc6", "libc-bin"), "Debian: libc"),
    (("dnsmasq", "nftables", "libnft", "iproute2", "libxtables"), "Debian: dnsmasq, nftables, iproute2"),
    (("git",), "Debian: git"),
    (("coreutils", "util-linux", "apt", "libapt", "dpkg", "passwd", "bash", "tzdata"), "Debian: essentials"),
)
PYTHON_FAMILIES = (
    (("pydantic",), "venv: pydantic"),
    (("pytest", "_pytest", "hypothesis", "pygments", "xdist"), "venv: pytest, hypothesis, pygments"),
    (("anthropic",), "venv: anthropic"),
    (("openai",), "venv: openai"),
    (("pip",), "venv: pip"),
)
VENV = "/opt/minifram/.venv/"


def parts() -> dict[str, list[int]]:
    owners = dict(owned())
    found: dict[str, list[int]] = {}
    linked: set[int] = set()
    for path in files():
        status = os.lstat(path)
        if status.st_ino in linked:
            continue
        if status.st_nlink > 1:
            linked.add(status.st_ino)
        part = found.setdefault(part_of(path, owners), [0, 0, 0])
        part[0] += status.st_size
        part[1] += status.st_size if path.endswith(".pyc") else 0
        part[2] += 1
    return found


def files() -> Iterator[str]:
    """Of the image alone: nothing that is mounted."""
    for directory, inner, names in os.walk("/"):
        inner[:] = [name for name in inner if not os.path.ismount(os.path.join(directory, name))]
        for name in names:
            path = os.path.join(directory, name)
            if not os.path.ismount(path):
                yield path


def owned() -> Iterator[tuple[str, str]]:
    """Paths, and the Debian packages that they are from; dpkg may know them by their place before /usr was merged."""
    for listed in glob.glob("/var/lib/dpkg/info/*.list"):
        package = os.path.basename(listed)[: -len(".list")].partition(":")[0]
        with open(listed, encoding="utf-8") as lines:
            for line in lines:
                yield os.path.realpath(os.path.dirname(line.strip())) + "/" + os.path.basename(line.strip()), package


def part_of(path: str, owners: dict[str, str]) -> str:
    source = path
    if path.endswith(".pyc"):
        folder, name = os.path.split(path)
        source = os.path.join(os.path.dirname(folder), name.partition(".")[0] + ".py")
    if path.startswith(VENV):
        below = source.partition("/site-packages/")[2]
        return family(PYTHON_FAMILIES, below.partition("/")[0], "venv: all else")
    if path.startswith("/opt/minifram/"):
        return "this project"
    package = owners.get(source, "")
    if package:
        return family(FAMILIES, package, "Debian: all other packages")
    return "Debian: dpkg's own records" if path.startswith("/var/lib/dpkg/") else "what was made when it was built"


def family(families: tuple[tuple[tuple[str, ...], str], ...], name: str, otherwise: str) -> str:
    return next((title for beginnings, title in families if name.startswith(beginnings)), otherwise)


if __name__ == "__main__":
    print(json.dumps(parts()))
