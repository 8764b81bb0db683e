"""What each git call of ours is given: settings and an environment in which a repository can name no program to run."""

from __future__ import annotations

import os

from infra.shared.people import Person

SAFE_SETTINGS = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("core.attributesFile", "/dev/null"),
    ("core.editor", "false"),
    ("core.askPass", "false"),
    ("credential.helper", ""),  # the empty word forgets those that were named before
    ("core.sshCommand", "false"),
    ("core.alternateRefsCommand", "true"),
    ("core.quotePath", "false"),
    # Both are caches beside the objects, believed without a look at them: they can show a false history.
    ("core.commitGraph", "false"),
    ("core.multiPackIndex", "false"),
    # What is larger is named, copied and sent, and never unpacked into memory to show how it changed.
    ("core.bigFileThreshold", "32m"),
    # Others hold a ref's lock for moments; git's own patience of 0.1 s is short on a busy machine.
    ("core.filesRefLockTimeout", "2000"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("push.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("diff.external", ""),  # makes a call that forgot --no-ext-diff fail instead of running a program
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("advice.detachedHead", "false"),
    ("advice.graftFileDeprecated", "false"),  # that we read none, by GIT_GRAFT_FILE, would be remarked upon each time
    ("safe.directory", "*"),
    ("init.defaultBranch", "main"),
)
"""Settings of ours that win over any repository's own configuration."""

DRIVERS_OFF = {
    "diff": ("--no-ext-diff", "--no-textconv"),
    "log": ("--no-ext-diff", "--no-textconv"),
    "show": ("--no-ext-diff", "--no-textconv"),
    "blame": ("--no-textconv",),
}
"""Commands that would run a program to show a change, and the options that forbid it."""


def with_settings(*settings: tuple[str, str]) -> dict[str, str]:
    """The environment of git for these settings beside `SAFE_SETTINGS`; they win over a repository's own."""
    every = (*SAFE_SETTINGS, *settings)
    env = {"GIT_CONFIG_COUNT": str(len(every))}
    for index, (key, value) in enumerate(every):
        env |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return env


def safe_environment(person: Person | None = None) -> dict[str, str]:
    """The whole environment of a git call: nothing of the caller's but PATH and LANG."""
    env = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LANG": "C.UTF-8",
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": "file:git",  # as a setting, a repository's own protocol.ext.allow would win
        "GIT_PROXY_COMMAND": "",  # as a setting, a repository's own core.gitProxy would win
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
    } | with_settings()
    if person:
        env |= {"GIT_AUTHOR_NAME": person.name, "GIT_AUTHOR_EMAIL": person.email}
        env |= {"GIT_COMMITTER_NAME": person.name, "GIT_COMMITTER_EMAIL": person.email}
    return env
