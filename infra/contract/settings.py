"""The PM's settings, `minifram.yaml` (DESIGN §8): frozen typed values, parsed once, unknown keys refused.

Read by the keep and by the `minifram` command. The runner gets its part through `boot.Boot`."""

from __future__ import annotations

import difflib
from typing import Any, Literal

import msgspec
import yaml

from infra.contract.boot import Limits


class SettingsError(ValueError):
    """A settings file that cannot be understood; the text names the key, what was expected and what to do."""


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of settings; every key has a default, and a key that is not known is an error."""


class Price(Section):
    """US dollars per million tokens."""

    input: float
    output: float
    cache_write: float | None = None
    """Default: 1.25 x input."""
    cache_read: float | None = None
    """Default: 0.1 x input."""


class ModelSettings(Section):
    provider: Literal["scripted", "anthropic"] = "scripted"
    name: str = "claude-opus-5-5"
    """The provider's model name."""
    max_tokens: int = 16_000
    """Output tokens of one call."""
    script: str | None = None
    """scripted only: path of the script; None is the demo's."""
    base_url: str | None = None
    """Where the provider is; None is the provider's own address."""
    idle_seconds: float = 120.0
    """A stream with no new content for so long is given up."""
    prices: dict[str, Price] = {}
    """Prices by model name, for names that the model door does not know."""


class BudgetSettings(Section):
    daily_usd: float = 10.0
    """Per UTC day; a call that could pass it is refused."""
    daily_tokens: int = 20_000_000


class IntervalSettings(Section):
    work_seconds: float = 600.0
    """The agent reads COMMS.md at the latest on this grid of the clock (seed 001)."""
    check_seconds: float = 600.0
    """The watcher looks for a running agent so often (seed 001)."""
    poll_seconds: float = 1.0
    """Signals and refs are looked at so often even when no file event comes."""


class LimitSettings(Section):
    bash_seconds: float = 600.0
    output_chars: int = 30_000
    unit_steps: int = 200
    unit_seconds: float = 7200.0
    validation_seconds: float = 900.0
    boot_seconds: float = 60.0
    """A runner that has not said SUCCESS by then is ended."""
    door_seconds: float = 10.0
    grace_seconds: float = 10.0
    """Between asking a process to end and ending it; also between a signal and the runner's own exit."""
    blob_bytes: int = 10 * 1024 * 1024
    """The largest file the git door lets in."""
    log_bytes: int = 20 * 1024 * 1024
    """A log file over this is moved aside at the next start."""


class Settings(Section):
    sandbox: Literal["process", "podman"] = "process"
    autonomy: Literal["merge", "propose", "frozen"] = "merge"
    """merge: the agent merges what it has validated; propose: only the PM moves main; frozen: reports only."""
    model: ModelSettings = ModelSettings()
    budget: BudgetSettings = BudgetSettings()
    intervals: IntervalSettings = IntervalSettings()
    limits: LimitSettings = LimitSettings()


def parse_settings(text: str, source: str = "minifram.yaml") -> Settings:
    """Settings from YAML text. Raises SettingsError."""
    try:
        raw = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise SettingsError(f"{source} is not YAML: {' '.join(str(error).split())}") from None
    raw = {} if raw is None else raw
    _refuse_unknown_keys(raw, Settings, "", source)
    try:
        settings = msgspec.convert(raw, Settings)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{source}: {error}; see 'minifram config' for each key and its type") from None
    _refuse_bad_numbers(settings, "", source)
    return settings


def read_settings(path: str) -> Settings:
    """Settings from a file. Raises SettingsError, also when it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse_settings(file.read(), path)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings {path} cannot be read ({error}); 'minifram init' writes them") from None


def runner_limits(settings: Settings) -> Limits:
    limits = settings.limits
    return Limits(
        bash_seconds=limits.bash_seconds,
        output_chars=limits.output_chars,
        unit_steps=limits.unit_steps,
        unit_seconds=limits.unit_seconds,
        validation_seconds=limits.validation_seconds,
        work_seconds=settings.intervals.work_seconds,
        door_seconds=limits.door_seconds,
    )


def _refuse_unknown_keys(raw: Any, shape: type[Section], where: str, source: str) -> None:
    if not isinstance(raw, dict):
        name = where.rstrip(".") or "the file"
        raise SettingsError(f"{source}: {name} must be a mapping of keys to values, found {type(raw).__name__}")
    fields = {field.name: field.type for field in msgspec.structs.fields(shape)}
    for key, value in raw.items():
        if key not in fields:
            near = difflib.get_close_matches(str(key), fields, n=1)
            hint = f"did you mean {where}{near[0]}?" if near else f"known here: {', '.join(fields)}"
            raise SettingsError(f"{source}: unknown key {where}{key}; {hint}")
        inner = fields[key]
        if isinstance(inner, type) and issubclass(inner, Section):
            _refuse_unknown_keys({} if value is None else value, inner, f"{where}{key}.", source)


def _refuse_bad_numbers(section: Section, where: str, source: str) -> None:
    for name in section.__struct_fields__:
        value = getattr(section, name)
        if isinstance(value, Section):
            _refuse_bad_numbers(value, f"{where}{name}.", source)
        elif isinstance(value, int | float) and not isinstance(value, bool) and not 0 < value < 1e12:
            raise SettingsError(f"{source}: {where}{name} is {value}; expected a number above 0 and below 1e12")
