"""The sender as a service of systemd, beside the agent's quadlet unit. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from host.container import quadlet
from host.container.quadlet import quoted
from host.context import as_option
from infra.shared.paths import ROOT
from infra.shared.programs import keep_command

MARK = "# Made by 'minifram generate notify"
_OF_AGENT = ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
"""By what the agent is found; systemd's own environment may lack them."""


def name(agent: str) -> str:
    return f"{quadlet.name(agent)}-notify.service"


def unit(agent: str, environ: Mapping[str, str]) -> str:
    """The whole file. Raises CommandError for what no unit can say."""
    own = as_option(agent)
    given = {"PYTHONPATH": ROOT} | {key: environ[key] for key in _OF_AGENT if environ.get(key)}
    lines = [
        f"{MARK}{own}'. Not to be edited: '--install' writes it again.",
        "[Unit]",
        f"Description=notifications of the minifram agent {agent}",
        "",
        "[Service]",
        *(f"Environment={quoted(f'{key}={value}', '%')}" for key, value in given.items()),
        f"ExecStart={' '.join(map(quoted, keep_command('host', '--agent', agent, 'notify')))}",
        "Restart=on-failure",
        "RestartSec=15",
        "",
        "[Install]",
        "WantedBy=default.target",
        "",
    ]
    return "\n".join(lines)
