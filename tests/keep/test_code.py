"""What runs is a commit's content, byte by byte, and nothing but plain files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.keep import code
from infra.keep.services.children import runner_command
from infra.shared.repository.git import Git
from tests.cell.cell import PM

PLAIN = {
    "infra/__init__.py": b"",
    "infra/runner.py": b"print('main')\n",
    "infra/cell/bin/tool": b"#!/bin/sh\n",
    "infra/text": b"$Format:%H$\r\n$Id$\r\n",
    "infra/left_out.py": b"x = 1\n",
    "SYSTEM.md": b"You are an agent.\n",
    "services.yaml": b"services: []\n",
    "requirements.txt": b"",
}
OTHERS = {
    ".gitattributes": b"* text eol=lf\ninfra/text export-subst ident\ninfra/left_out.py export-ignore\n",
    "infra/keep/__init__.py": b"",
    "infra/watcher.py": b"",
    "src/a.py": b"",
}


@pytest.fixture
def git(tmp_path: Path) -> Git:
    made = Git(str(tmp_path), PM)
    made("init", "-q", "-b", "main")
    entries = []
    for path, content in (PLAIN | OTHERS).items():
        blob = made("hash-object", "-w", "--stdin", "--no-filters", stdin=content)
        entries.append(f"{'100755' if path.endswith('tool') else '100644'} {blob}\t{path}\n")
    made("update-index", "--add", "--index-info", stdin="".join(entries).encode())
    made("commit", "-q", "-m", "a version")
    return made


def exported(git: Git, commit: str = "HEAD") -> str:
    folder = f"{git.directory}/copies"
    os.makedirs(folder, exist_ok=True)
    return code.export(git, git("rev-parse", commit), folder)


def changed(git: Git, *entries: str) -> str:
    git("update-index", "--add", "--index-info", stdin="".join(f"{each}\n" for each in entries).encode())
    git("commit", "-q", "-m", "changed")
    return "HEAD"


def files_of(copy: str) -> dict[str, bytes]:
    paths = [path for path in Path(copy).rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {str(path.relative_to(copy)): path.read_bytes() for path in paths}


@pytest.mark.fault("F55")
def test_a_copy_is_the_commit_whatever_its_attributes_say(git: Git) -> None:
    """No filter, no end of line and no export attribute is obeyed; the keep's part and all else are left out."""
    copy = exported(git)
    assert files_of(copy) == PLAIN
    assert [path for path in PLAIN if os.access(f"{copy}/{path}", os.X_OK)] == ["infra/cell/bin/tool"]
    assert Path(copy).stat().st_mode & 0o777 == 0o755
    done = subprocess.run(runner_command(copy), cwd=git.directory, capture_output=True, text=True, check=True)
    assert done.stdout == "main\n"
    assert list(Path(copy).rglob("runner.*.pyc")), "bytecode"


def test_the_same_content_is_copied_once(git: Git) -> None:
    """Reports move main at any time; another file of the keep's is nothing new to the agent either."""
    copy = exported(git)
    made = os.stat(copy).st_mtime_ns
    assert (
        exported(git, changed(git, f"100644 {git('hash-object', '-w', '--stdin', stdin=b'2')}\tinfra/keep/b.py"))
        == copy
    )
    assert os.stat(copy).st_mtime_ns == made
    other = exported(git, changed(git, f"100644 {git('hash-object', '-w', '--stdin', stdin=b'3')}\tSYSTEM.md"))
    code.remove_others(os.path.dirname(copy), [other])
    assert os.listdir(os.path.dirname(copy)) == [os.path.basename(other)]


def _with(entry: str, content: bytes = b"x") -> Callable[[Git], str]:
    """A commit with this entry more, as `update-index` reads it, of a file with this content."""
    return lambda git: changed(git, entry.format(git("hash-object", "-w", "--stdin", stdin=content)))


def _outside(git: Git) -> str:
    blob = git("hash-object", "-w", "--stdin", stdin=b"x")
    inner = git("mktree", stdin=f"100644 blob {blob}\t..\n".encode())
    return git("commit-tree", git("mktree", stdin=f"040000 tree {inner}\tinfra\n".encode()), "-m", "x")


def _nothing(git: Git) -> str:
    git("rm", "-r", "-q", "--cached", "infra")
    git("commit", "-q", "-m", "no infra")
    return "HEAD"


def _lost(git: Git) -> str:
    _with("100644 {}\tinfra/lost", b"lost")(git)
    blob = git("rev-parse", "HEAD:infra/lost")
    os.unlink(f"{git.directory}/.git/objects/{blob[:2]}/{blob[2:]}")
    return "HEAD"


@pytest.mark.fault("F48")
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_with("120000 {}\tinfra/cell/link", b"/etc/passwd"), "'infra/cell/link'"),
        (lambda git: changed(git, f"160000 {git('rev-parse', 'HEAD')}\tinfra/cell/other"), "'infra/cell/other'"),
        (_outside, "no plain file"),
        (_nothing, "no directory infra"),
        (_with("100644 {}\tinfra/zeros", bytes(code.MOST_BYTES)), "make it smaller"),
        (_with("\n".join(f"100644 {{0}}\tinfra/{number}" for number in range(code.MOST_FILES))), "at most 1000"),
        (_with(f"100644 {{}}\tinfra/{'x' * 300}"), "no plain file with a path of at most 250 bytes"),
        (_lost, "has lost 'infra/lost'"),
    ],
)
def test_what_cannot_be_copied_whole_is_not_run(git: Git, spoil: Callable[[Git], str], why: str) -> None:
    """The version is to blame, and no half of it is left."""
    commit = spoil(git)
    with pytest.raises(code.NoCode, match=why):
        exported(git, commit)
    assert os.listdir(f"{git.directory}/copies") == []


def test_whatever_the_runner_could_import_from_infra_is_another_version(git: Git) -> None:
    """Else a bad main would be pinned with the good one, and a running agent would never make way for it. The keep's
    part of a checkout runs nowhere: a change of it restarts no runner, and gives a bad main no second chance."""
    blob = git("hash-object", "-w", "--stdin", stdin=b"1 / 0\n")
    before = code.version_of(git, git("rev-parse", "HEAD")).id
    for path, is_other in (
        ("infra/keep/limits/judge.py", False),
        ("infra/watcher.py", False),
        ("infra/runner/__main__.py", True),
        ("infra/tools/__init__.py", True),
        ("infra/Runner.py", True),
        ("infra/tools.py", True),
    ):
        after = code.version_of(git, git("rev-parse", changed(git, f"100644 {blob}\t{path}"))).id
        assert (after != before) is is_other, path
        before = after
