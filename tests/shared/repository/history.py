"""Real repositories for the tests, written by git's own fast-import and not by the code that is tested."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from infra.shared.people import AGENT
from infra.shared.repository.git import Git

FILE, EXECUTABLE, LINK, GITLINK = "100644", "100755", "120000", "160000"
COMMIT = "c0ffee" * 6 + "c0ff"
"""A commit of some other repository, for a gitlink."""

Content = str | bytes | tuple[str, str | bytes]
"""Of a file, or its mode and content."""


def plain(directory: Path | str, *words: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Git as a person runs it there, with nothing of ours switched off."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    known = {"GIT_AUTHOR_NAME": "T", "GIT_AUTHOR_EMAIL": "t@example.invalid", "HOME": str(directory)}
    known |= {"GIT_COMMITTER_NAME": "T", "GIT_COMMITTER_EMAIL": "t@example.invalid", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", *words],
        cwd=directory,
        env=clean | known | {"LC_ALL": "C"} | env,
        capture_output=True,
        check=False,
        text=True,
        errors="surrogateescape",
        input=stdin,
    )


def bare_repository(directory: Path) -> Git:
    """As `git init --bare` makes one, but copied: many tests begin with it."""
    shutil.copytree(_template().name, directory)
    return Git(str(directory), AGENT)


@functools.cache
def _template() -> tempfile.TemporaryDirectory[str]:
    made = tempfile.TemporaryDirectory(prefix="bare-")
    plain(made.name, "init", "--quiet", "--bare", "--template=", "--initial-branch=main")
    plain(made.name, "config", "receive.autogc", "false")  # as a remote has it
    return made


def commit(git: Git, files: dict[str, Content], *parents: str, branch: str = "main") -> str:
    """Put exactly these files on `branch`, with these parents; gives the commit."""
    ref = f"refs/heads/{branch}"
    stream = [f"commit {ref}\nmark :1\ncommitter T <t@example.invalid> 1700000000 +0000\ndata 1\nm\n".encode()]
    stream += [f"{'merge' if index else 'from'} {parent}\n".encode() for index, parent in enumerate(parents)]
    stream += [b"deleteall\n"]
    for path, content in files.items():
        mode, text = content if isinstance(content, tuple) else (FILE, content)
        blob = text if isinstance(text, bytes) else text.encode()
        name = os.fsencode(path)
        if mode == GITLINK:
            stream += [b"M %s %s %s\n" % (mode.encode(), blob, name)]
        else:
            stream += [b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), name, len(blob), blob)]
    reset = f"reset {ref}\n\n".encode() if not parents else b""
    made = subprocess.run(
        ["git", "-c", "fastimport.unpackLimit=1", "fast-import", "--quiet", "--force"],
        cwd=git.directory,
        input=reset + b"".join(stream) + b"get-mark :1\n",
        capture_output=True,
        check=True,
        env={"PATH": os.environ["PATH"]},
    )
    return made.stdout.decode().strip()


def listing(git: Git, commit: str) -> dict[str, tuple[str, str]]:
    """Every file of a commit: its mode and the id of its content."""
    listed = plain(git.directory, "ls-tree", "-r", "-z", "--full-tree", commit).stdout
    entries = (line.split("\t", 1) for line in listed.split("\0") if line)
    return {path: (words.split()[0], words.split()[2]) for words, path in entries}


def contents(git: Git, commit: str) -> dict[str, str]:
    """Every file of a commit and its text."""
    files = listing(git, commit)
    asked = "".join(f"{id}\n" for _, id in files.values()).encode()
    said, texts = git.raw("cat-file", "--batch", stdin=asked), {}
    for path in files:
        first, _, rest = said.partition(b"\n")
        size = int(first.split()[2])
        texts[path], said = rest[:size].decode(errors="surrogateescape"), rest[size + 1 :]
    return texts


def parents(git: Git, commit: str) -> list[str]:
    return plain(git.directory, "rev-list", "--parents", "-n1", commit).stdout.split()[1:]
