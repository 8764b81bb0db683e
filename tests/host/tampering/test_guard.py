"""The hook that keeps the PM's own pushes inside the repository."""

from __future__ import annotations

import pytest

from host.agent.up import make_ready
from host.repository.repair import HOOKS, PRE_RECEIVE, is_hook, put_hooks
from tests.host.tampering.site import Said, Site
from tests.host.tampering.vector import HARMFUL, outside


def push(site: Site) -> Said:
    site.plain("commit", "--quiet", "--allow-empty", "-m", "mine", cwd=site.clone)
    return site.plain("push", "--quiet", "origin", "HEAD:refs/heads/mine", cwd=site.clone)


def test_a_push_through_a_planted_link_is_refused(site: Site) -> None:
    """With it nothing is written outside, and the link is named; without it plain git writes there."""
    target = site.lead_outside("refs/heads")
    refused = push(site)
    assert refused.status == 1
    assert "refs/heads" in refused.text
    assert "minifram doctor" in refused.text
    assert not (target / "mine").exists()
    (site.remote / PRE_RECEIVE).unlink()
    assert push(site).status == 0
    assert (target / "mine").exists(), "the control: there was nothing to guard against"


def test_pushes_into_a_clean_repository_go_through(site: Site) -> None:
    """It costs two looks and changes nothing."""
    assert push(site) == Said(0, "")
    assert (site.remote / "refs/heads/mine").exists()


def test_what_it_names_does_not_steer_the_terminal(site: Site) -> None:
    """Names are the planter's words."""
    (site.remote / "objects" / "\x1b]0;owned\x07\u202e").symlink_to(site.outside)
    refused = push(site)
    assert refused.status == 1
    assert "?]0;owned?" in refused.text
    assert not HARMFUL.search(refused.text)


@pytest.mark.parametrize("name", HOOKS)
def test_the_pm_s_own_hook_stays(site: Site, name: str) -> None:
    """Where the PM has one, it is not ours to replace; doctor asks."""
    hook = site.remote / name
    hook.write_text("#!/bin/sh\nexit 0\n")
    put_hooks(str(site.remote))
    assert hook.read_text() == "#!/bin/sh\nexit 0\n"
    assert not is_hook(str(site.remote), name)
    assert "remove it unless you put it there" in site.desk.run("doctor").out


def test_missing_guards_are_found_and_put_back(site: Site) -> None:
    """An agent of an earlier version has none or one; the next start or upgrade brings them."""
    for name in HOOKS:
        (site.remote / name).unlink()
    (site.remote / "hooks").rmdir()
    ended = site.desk.run("doctor")
    assert ended.code == 8
    for name, hook in HOOKS.items():
        assert f"{site.remote}/{name} is missing, so {hook.without}: 'minifram up' puts it there" in ended.out
    make_ready(site.desk.context(), "process", lambda _: None)
    assert {name: (site.remote / name).read_text() for name in HOOKS} == {n: hook.script for n, hook in HOOKS.items()}
    assert site.desk.run("doctor").code == 0


@pytest.mark.parametrize("mode", [0o600, 0o720, 0o702])
def test_a_guard_with_another_mode_is_found_and_put_right(site: Site, mode: int) -> None:
    """git goes on without a hook that it may not execute, and runs one that others have written."""
    for name in HOOKS:
        (site.remote / name).chmod(mode)
    assert site.desk.run("doctor").code == 8
    put_hooks(str(site.remote))
    assert all(is_hook(str(site.remote), name) for name in HOOKS)


def test_it_is_not_in_the_way_of_the_command(site: Site) -> None:
    """The verbs look for themselves, and run no hook."""
    (site.remote / PRE_RECEIVE).write_text(f"#!/bin/sh\ntouch '{site.mark}'\nexit 1\n")
    assert site.desk.run("tell", "do this").code == 0
    assert site.desk.run("merge", "improve@TIP").code == 0
    assert not site.mark.exists()
    assert outside(site).keys() == {str(site.outside / "mine")}
