"""Whether the model of the settings can work where the agent runs, as far as that is known without asking anybody."""

from __future__ import annotations

import os
from collections.abc import Iterator

from host.container import choice
from host.context import Context
from host.errors import CommandError
from host.paths import AgentPaths
from host.repository.checks import FAIL, NOTE, OK, WARN, Result
from host.running.record import PODMAN, PROCESS, is_running, keys_in_use, sandbox_in_use, was_sealed
from infra.shared.model_reach import problem_in_sandbox
from infra.shared.model_settings import ModelSettings, keys_needed, model_words
from infra.shared.providers import KEYS, variable_of
from infra.shared.settings_file import SettingsError, read_settings


def problem_with_model(home: AgentPaths, model: ModelSettings, sandbox: str) -> str | None:
    """Why a model of these settings cannot work in `sandbox`; None when it may."""
    path = os.path.join(os.path.dirname(home.settings), model.script or "")
    if model.script and sandbox == PROCESS and not os.path.isfile(path):
        return f"model.script is {model.script}; expected a file, found none at {path}"
    return problem_in_sandbox(model, sandbox)


def problem_in_effect(home: AgentPaths) -> str | None:
    """The same in the sandbox that the settings ask for, or that the agent was started in last. Raises
    SettingsError."""
    settings = read_settings(home.settings)
    sandbox = settings.sandbox if settings.sandbox in (PODMAN, PROCESS) else sandbox_in_use(home)
    return problem_with_model(home, settings.model, sandbox)


def check_model(context: Context, home: AgentPaths) -> Iterator[Result]:
    """For `doctor`: who thinks, and what stands in the way."""
    try:
        settings = read_settings(home.settings)
    except SettingsError:  # reported by its own check
        return
    is_up = is_running(home)
    there = keys_in_use(home) if is_up else [key for key in KEYS if context.environ.get(variable_of(key))]
    problem = problem_with_model(home, settings.model, _sandbox(context, home, settings.sandbox, is_up))
    if problem:
        yield Result("model", FAIL, problem)
    lost = [variable_of(key) for key in keys_needed(settings.model, there) if key not in there]
    if lost:
        text = f"{' and '.join(lost)} is not set, and 'minifram up' needs it"
        yield Result("model", WARN if is_up else NOTE, text)
    if not problem and not lost:
        yield Result("model", OK, model_words(settings.model, there))


def _sandbox(context: Context, home: AgentPaths, asked: str, is_up: bool) -> str:
    """The one that the agent is in, or would be started in."""
    if is_up or asked != choice.AUTO:
        return (sandbox_in_use(home) if is_up else "") or asked
    try:
        return choice.choose(context, asked, was_sealed(home)).sandbox
    except CommandError:  # sealed once, and podman cannot be used: another check says so
        return PODMAN
