"""A candidate's checkout may name programs in every place where git looks for some: none of them runs."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from infra.keep.rehearsal.verdict import RehearsalVerdict
from infra.shared.repository.git import Git
from tests.keep.rehearsal.candidates import Bench

HOOKS = ("post-checkout", "pre-commit", "post-commit", "reference-transaction", "pre-push", "post-merge", "fsmonitor")


def plant(bench: Bench, ran: str) -> None:
    """Have the checkout's own git run a program that leaves a mark, on every occasion."""
    program = f"{bench.checkout}/.git/program"
    with open(program, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\necho "$0 $*" >>{ran}\nexec cat\n')
    os.chmod(program, 0o755)
    os.makedirs(f"{bench.checkout}/.git/hooks", exist_ok=True)
    for name in HOOKS:
        shutil.copy2(program, f"{bench.checkout}/.git/hooks/{name}")
    with open(f"{bench.checkout}/.gitattributes", "a", encoding="utf-8") as file:
        file.write("* filter=planted diff=planted merge=planted\n")
    bench.commit()
    for key in (
        *("filter.planted.clean", "filter.planted.smudge", "filter.planted.process"),
        *("diff.planted.textconv", "merge.planted.driver", "diff.external", "core.fsmonitor", "core.pager"),
        *("core.sshCommand", "core.alternateRefsCommand", "core.editor", "core.askPass", "gpg.program"),
        *("uploadpack.packObjectsHook", "remote.origin.uploadpack", "credential.helper", "core.gitProxy"),
    ):
        bench.git("config", key, program)
    bench.git("config", "core.worktree", "/tmp")


@pytest.mark.heavy
def test_no_program_of_the_checkouts_own_git_runs(bench: Bench, tmp_path: object) -> None:
    """Its settings, hooks and filters count for nothing, and the version in it is as fit as it was."""
    ran = f"{tmp_path}/ran"
    plant(bench, ran)
    commit = bench.git("rev-parse", "HEAD")
    if os.path.exists(ran):
        os.unlink(ran)

    assert bench.rehearse(commit=commit) == RehearsalVerdict(True)

    assert not os.path.exists(ran)
    bench.git("config", "--unset", "core.worktree")
    subprocess.run(["git", "status"], cwd=bench.checkout, capture_output=True, check=False, timeout=30)
    assert os.path.exists(ran), "the control: plain git in that checkout runs what was planted"


@pytest.mark.parametrize("what", ["link", "file", "none", "borrowed", "shallow", "broken", "elsewhere"])
def test_a_checkout_that_is_no_whole_clone_is_refused(bench: Bench, tmp_path: object, what: str) -> None:
    """Its objects are taken from nowhere but itself; the reason says what to do."""
    commit, repository = bench.git("rev-parse", "HEAD"), f"{bench.checkout}/.git"
    match what:
        case "link":
            os.rename(repository, f"{bench.checkout}.git")
            os.symlink(f"{bench.checkout}.git", repository)
        case "file":
            os.rename(repository, f"{bench.checkout}.git")
            with open(repository, "w", encoding="utf-8") as file:
                file.write(f"gitdir: {bench.checkout}.git\n")
        case "none":
            shutil.rmtree(repository)
        case "borrowed":
            os.rename(f"{repository}/objects", f"{bench.checkout}.objects")
            os.makedirs(f"{repository}/objects/info")
            with open(f"{repository}/objects/info/alternates", "w", encoding="utf-8") as file:
                file.write(f"{bench.checkout}.objects\n")
        case "shallow":
            with open(f"{repository}/shallow", "w", encoding="utf-8") as file:
                file.write(f"{commit}\n")
        case "broken":
            blob = bench.git("rev-parse", "HEAD:infra/runner.py")
            _lose(bench, blob)
        case "elsewhere":
            commit = "1" * 40

    found = bench.rehearse(commit=commit)

    assert found.fit is False, found
    assert found.why.startswith("clone: "), found
    assert "clone" in found.why


def _lose(bench: Bench, blob: str) -> None:
    """Take one object out of the repository."""
    git = Git(bench.checkout)
    packs = [name for name in os.listdir(f"{bench.checkout}/.git/objects/pack") if name.endswith(".pack")]
    for name in packs:
        path = f"{bench.checkout}/.git/objects/pack/{name}"
        shutil.move(path, f"{bench.checkout}/{name}")
        shutil.rmtree(f"{bench.checkout}/.git/objects/pack")
        os.mkdir(f"{bench.checkout}/.git/objects/pack")
        with open(f"{bench.checkout}/{name}", "rb") as pack:
            git("unpack-objects", "-q", stdin=pack.read())
    os.unlink(f"{bench.checkout}/.git/objects/{blob[:2]}/{blob[2:]}")


@pytest.mark.heavy
def test_a_fifo_among_the_objects_is_not_waited_for_for_ever(bench: Bench) -> None:
    """Git that cannot go on is stopped. Who is to blame for that is not known, so there is no verdict."""
    commit = bench.git("rev-parse", "HEAD")
    _lose(bench, commit)
    os.mkfifo(f"{bench.checkout}/.git/objects/{commit[:2]}/{commit[2:]}")

    found = bench.rehearse(commit=commit)

    assert found.fit is None, found
    assert "ran out of time" in found.why
