"""Run inside the image, as root, with the image's own Python: says as JSON what it finds there."""

from __future__ import annotations

import importlib
import json
import os
import pwd
import shutil
import stat
import sys

OURS = "/opt/minifram/"
PROGRAMS = ("nft", "dnsmasq", "git", "setpriv", "ip", "make", "ps", "bash")
MODULES = ("infra.seal", "infra.watcher", "infra.runner", "infra.model_door", "infra.git_door", "anthropic", "pytest")


def main() -> None:
    sys.path.insert(0, OURS)
    for name in MODULES:
        importlib.import_module(name)
    found = {path: os.lstat(path) for path in _files()}
    ours = {path: status for path, status in found.items() if path.startswith(OURS)}
    shown = {
        "raising": [path for path, status in found.items() if stat.S_ISREG(status.st_mode) and status.st_mode & 0o6000],
        "writable": [path for path, status in ours.items() if _is_open(status)],
        "uncompiled": [path for path in ours if path.endswith(".py") and _is_code(path) and not _is_compiled(path)],
        "left": [
            path for path in found if path.startswith(("/var/lib/apt/lists/", "/root/.cache", "/mnt/wheels/", "/tmp/"))
        ],
        "missing": [name for name in PROGRAMS if shutil.which(name) is None],
        "prefix": sys.prefix,
        "agent": pwd.getpwnam("agent")[2:4],
        "resolver": pwd.getpwnam("resolver")[2:4],
        "web": pwd.getpwnam("web")[2:4],
        "hosts": _text("/etc/hosts"),
        "modes": {path: _mode(path) for path in ("/mnt/remote", "/run/minifram", "/bot", "/tmp")},
    }
    print(json.dumps(shown))


def _files() -> list[str]:
    apart = ("/proc", "/sys", "/dev", "/run")
    return [
        os.path.join(directory, name)
        for directory, _, names in os.walk("/")
        if not directory.startswith(apart)
        for name in names
    ]


def _is_open(status: os.stat_result) -> bool:
    return not stat.S_ISLNK(status.st_mode) and bool(status.st_mode & 0o022 or status.st_uid)


def _is_code(path: str) -> bool:
    """Of the keep, not of what an agent is born with."""
    return path.startswith((f"{OURS}infra/", f"{OURS}.venv/lib/"))


def _is_compiled(path: str) -> bool:
    directory, name = os.path.split(path)
    return os.path.exists(f"{directory}/__pycache__/{name[:-3]}.cpython-311.pyc")


def _mode(path: str) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    main()
