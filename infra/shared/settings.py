"""The PM's settings, `minifram.yaml` (DESIGN §8): frozen typed values, parsed once, unknown keys refused.

Read by the keep and by the `minifram` command. The runner gets its part through `boot.Boot`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import msgspec

from infra.shared.boot import Limits
from infra.shared.host_names import problem_with_host_name
from infra.shared.model_settings import MAX_NEXT_MODELS, ModelSettings, NextModel, Price, problems_with_keys
from infra.shared.plain_yaml import parse_yaml
from infra.shared.policy import Policy, Rule, problem_with_size, problems_with_rules, to_text
from infra.shared.protection import MAX_PATTERNS, problem_with_branch_pattern, problem_with_file_pattern
from infra.shared.section import Section


class SettingsError(ValueError):
    """A settings file that cannot be understood; the text names the key, what was expected and what to do."""


class BudgetSettings(Section, frozen=True):
    daily_usd: float = 10.0
    """Per UTC day; a call that could pass it is refused."""
    daily_tokens: int = 20_000_000
    """The same bound in tokens, all kinds added up."""
    unit_usd: float = 5.0
    """For all work on the directives that are open: it ends with a report before a call that could pass this."""
    unit_tokens: int = 10_000_000
    """The same bound in tokens."""
    unpriced: bool = False
    """true: a model whose price is not known may be used, and only its tokens are bounded."""


class CommsSettings(Section, frozen=True):
    keep_reports: int = 12
    """So many reports stand in COMMS.md, which is part of every prompt; older ones move to COMMS-ARCHIVE.md."""
    page_bytes: int = 24 * 1024
    """When COMMS.md is larger, its oldest reports move to COMMS-ARCHIVE.md; your directives never do."""


class IntervalSettings(Section, frozen=True):
    work_seconds: float = 600.0
    """The agent reads COMMS.md at the latest on this grid of the clock (seed 001)."""
    check_seconds: float = 600.0
    """The watcher looks for a running agent so often (seed 001)."""
    poll_seconds: float = 1.0
    """Signals and refs are looked at so often even when no file event comes."""


class LimitSettings(Section, frozen=True):
    bash_seconds: float = 600.0
    """The longest a single command of the model may run."""
    output_chars: int = 30_000
    """The longest result of a tool; more is cut in the middle."""
    unit_steps: int = 200
    """Model calls in one unit of work."""
    unit_seconds: float = 7200.0
    """The longest one unit of work may take."""
    context_tokens: int = 150_000
    """The longest conversation that is sent to the model; with `model.max_tokens` it must fit what the model takes."""
    validation_seconds: float = 900.0
    """The longest the tests of a branch may run."""
    rehearsal_seconds: float = 20.0
    """The longest that a branch's rehearsal may take, not counting what the machine keeps it waiting."""
    install_seconds: float = 600.0
    """The longest that installing a branch's requirements may take."""
    boot_seconds: float = 60.0
    """A runner that has not said SUCCESS by then is ended."""
    probation_seconds: float = 600.0
    """A version that has served so long can live: it is what leads again when a later one cannot."""
    hops: int = 6
    """So often within ten minutes a branch may lead while main stays as it is."""
    make_way_seconds: float = 300.0
    """When main holds other code, the runner is to make way for it within this time, and is ended after it."""
    door_seconds: float = 10.0
    """How long a boot waits for the doors to answer."""
    grace_seconds: float = 10.0
    """Between asking a process to end and ending it; also between a signal and the runner's own exit."""
    blob_bytes: int = 10 * 1024 * 1024
    """The largest file the git door lets in."""
    log_bytes: int = 20 * 1024 * 1024
    """Of a log file over this only the end is kept at the next start, beside it as `.1`. While the agent runs, logs
    that grow by so much in a minute, or one of three times this, are cut; when they go on so, the runner is ended."""
    sample_seconds: float = 30.0
    """So often the watcher looks at what the agent takes of the machine."""
    cpu_seconds: float = 1800.0
    """All processors taken for so long, twice in a row, with no model call and no push: the runner is ended. Not less
    than the longest that a command or the tests of a branch may run."""
    cpu_fraction: float = 0.95
    """So much of the processors' time counts as all of it."""
    cpu_cores: float | None = None
    """Processors that count as all; None: those that the agent may use."""
    free_bytes: int = 256 * 1024 * 1024
    """Less than this free on a disk, or 5 % of its files: room is made, and an agent that fills it further is ended."""
    tokens_per_hour: int = 5_000_000
    """More than this within an hour, without what was cached, twice in a row with no push: the runner is ended."""
    steps_per_hour: int = 3000
    """The same of answers of the model, whatever they cost: one each 1.2 s is no work that waits for anything."""
    branch_dirs: int = 20
    """So many clones of branches are kept; of more, the oldest that hold nothing of their own are removed."""


class ProtectedSettings(Section, frozen=True):
    files: tuple[str, ...] = ()
    """Patterns of paths that the agent may not change on main, such as [SYSTEM.md, spec/, '*.lock']; each protects all
    below what it matches, and `*` stands for `/` as well."""
    branches: tuple[str, ...] = ("pm/*",)
    """Patterns of branches that the agent may neither create nor move."""


class PolicyRule(Section, frozen=True):
    """What is done with a call of a tool that meets every condition that is given (`contract.policy`)."""

    do: Literal["allow", "ask", "deny"]
    tools: tuple[str, ...] = ()
    effects: tuple[Literal["read", "write", "execute", "auth"], ...] = ()
    commands: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    why: str = ""


class PolicySettings(Section, frozen=True):
    default: Literal["allow", "ask", "deny"] = "allow"
    """What is done with a call of a tool that no rule matches; ask: it waits for your `minifram approve`."""
    private_networks: Literal["allow", "deny"] = "deny"
    """deny: no call that names a private, link-local or other address outside the internet, but for loopback."""
    rules: tuple[PolicyRule, ...] = ()
    """In order, the first that matches counts (SPEC_POLICY), such as [{do: ask, effects: [auth]}, {do: deny, commands:
    ['git push *'], why: I push}]; conditions: tools, effects, commands, paths, domains."""


class EgressSettings(Section, frozen=True):
    mode: Literal["open", "allowlist"] = "open"
    """open: the agent reaches every public address; allowlist: the names in `allow` only. For the sealed container."""
    allow: tuple[str, ...] = ()
    """allowlist only: names that the agent may reach, each with all names below it, such as [pypi.org]."""
    ipv6: bool = True
    """false: nothing leaves by IPv6."""


class PodmanSettings(Section, frozen=True):
    """The container; what the machine cannot limit is not limited (`minifram doctor` says so)."""

    network: Literal["auto", "none"] = "auto"
    """none: the container has no network but its own loopback device, and so only the scripted model."""
    base: str | None = None
    """The image to build on; None: Debian's when podman knows a registry, else one made here with mmdebstrap."""
    pids: int = 2048
    """Processes and threads."""
    open_files: int = 16_384
    """Of one process."""
    memory_bytes: int = 4 * 1024**3
    """Memory of everything in the container."""
    cpus: float | None = None
    """Processors' worth of time; None: all there are."""
    tmp_bytes: int = 512 * 1024**2
    """The most that /tmp may hold; it lies in memory."""


class Settings(Section, frozen=True):
    sandbox: Literal["auto", "podman", "process"] = "auto"
    """podman: a sealed container; process: plain directories, no isolation; auto: podman where `minifram doctor` finds
    it usable by whoever runs `up`, else process; an agent that was sealed before is never started unsealed by it."""
    rehearse: bool = True
    """Each branch first lives a small life in scratch directories; one that cannot does not lead."""
    autonomy: Literal["merge", "propose", "frozen"] = "merge"
    """merge: the agent merges what the keep has examined; propose: only the PM moves main; frozen: reports only."""
    model: ModelSettings = ModelSettings()
    budget: BudgetSettings = BudgetSettings()
    comms: CommsSettings = CommsSettings()
    intervals: IntervalSettings = IntervalSettings()
    limits: LimitSettings = LimitSettings()
    protected: ProtectedSettings = ProtectedSettings()
    egress: EgressSettings = EgressSettings()
    policy: PolicySettings = PolicySettings()
    podman: PodmanSettings = PodmanSettings()


def parse_settings(text: str, source: str = "minifram.yaml") -> Settings:
    """Settings from YAML text. Raises SettingsError with all that is wrong, a line for each problem."""
    try:
        raw = parse_yaml(text)
    except ValueError as error:
        raise SettingsError(f"{source} cannot be understood: {error}") from None
    try:
        settings = _settings(raw, source)
    except SettingsError as error:
        found = dict.fromkeys(problem for part in _parts(raw) for problem in _problem(part, source))
        found |= dict.fromkeys(_problem_with_addresses(raw, source))
        raise SettingsError("\n".join(found) or str(error)) from None
    problems = _told_of_keys(settings.model, source)
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def _problem_with_addresses(raw: Any, source: str) -> Iterator[str]:
    """No setting of `model` alone shows where keys go, so what tells it is looked at together, without the others."""
    model = raw.get("model") if isinstance(raw, dict) else None
    if isinstance(model, dict):
        then = model.get("then")
        models = [model, *(one for one in (then if isinstance(then, list) else ()) if isinstance(one, dict))]
        first, *others = ({key: one[key] for key in ("provider", "base_url") if key in one} for one in models)
        try:
            alone = msgspec.convert({**first, "then": others}, ModelSettings)
        except msgspec.ValidationError:
            return  # told already
        yield from _told_of_keys(alone, source)


def _told_of_keys(model: ModelSettings, source: str) -> list[str]:
    return [f"{source}: model: {problem}" for problem in problems_with_keys(model)]


def _parts(raw: Any) -> Iterator[dict[Any, Any]]:
    """`raw` once for each setting that it holds, with that one alone in it."""
    for key, value in raw.items() if isinstance(raw, dict) else ():
        if not isinstance(value, dict) or not value:
            yield {key: value}
            continue
        for name, inner in value.items():
            # Rules are known by their numbers, and all that is wrong with them is named together.
            yield from ({key: {name: one}} for one in ([inner] if key == "policy" else _singly(inner)))


def _singly(value: Any) -> Iterator[Any]:
    """Each entry of a list, or of a mapping, by itself."""
    if isinstance(value, dict) and value:
        yield from ({name: inner} for name, inner in value.items())
    elif isinstance(value, list) and value:
        yield from ([inner] for inner in value)
    else:
        yield value


def _problem(part: dict[Any, Any], source: str) -> Iterator[str]:
    try:
        _settings(part, source)
    except SettingsError as error:
        yield str(error)


def _settings(raw: Any, source: str) -> Settings:
    """Raises SettingsError with the first thing that is wrong."""
    known = _known_keys({} if raw is None else raw, Settings, "", source)
    rules = known.get("policy", {}).get("rules", [])
    problems = [f"{source}: policy.{problem}" for problem in problems_with_rules(rules)]
    if problems:
        raise SettingsError("\n".join(problems))
    try:
        settings = msgspec.convert(known, Settings)
    except msgspec.ValidationError as error:
        told = _told(error, known)
        raise SettingsError(f"{source}: {told}; see 'minifram config' for each key and its type") from None
    _refuse_bad_numbers(settings, "", source)
    for name in settings.egress.allow:
        problem = problem_with_host_name(name)
        if problem:
            raise SettingsError(f"{source}: egress.allow: {problem}")
    _refuse_bad_patterns(settings.protected, source)
    too_long = problem_with_size(policy_of(settings))
    if too_long:
        raise SettingsError(f"{source}: policy.rules: {too_long}")
    return settings


def read_settings(path: str) -> Settings:
    """Settings from a file. Raises SettingsError, also when it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse_settings(file.read(), path)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings {path} cannot be read ({error}); an empty file means all defaults") from None


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
        context_tokens=limits.context_tokens,
    )


def policy_of(settings: Settings) -> Policy:
    given = settings.policy
    rules = tuple(Rule(**msgspec.structs.asdict(rule)) for rule in given.rules)
    return Policy(given.default, given.private_networks, rules)


def runner_policy(settings: Settings) -> str:
    """The policy as `boot.Boot` carries it."""
    policy = policy_of(settings)
    return "" if policy == Policy() else to_text(policy)


def _known_keys(raw: Any, shape: type[Section], where: str, source: str) -> dict[str, Any]:
    """`raw` without the sections that are left empty. Raises SettingsError for a key that is not known."""
    if not isinstance(raw, dict):
        name = where.rstrip(".") or "the file"
        found = "nothing" if raw is None else type(raw).__name__
        raise SettingsError(f"{source}: {name} must be a mapping of keys to values, found {found}")
    fields = {field.name: field.type for field in msgspec.structs.fields(shape)}
    known = {}
    for key, value in raw.items():
        if key not in fields:
            near = difflib.get_close_matches(str(key), fields, n=1)
            hint = f"did you mean {where}{near[0]}?" if near else f"known here: {', '.join(fields)}"
            raise SettingsError(f"{source}: unknown key {where}{key}; {hint}")
        known[key] = value
        inner, name = fields[key], f"{where}{key}"
        if get_origin(inner) is Literal and value not in get_args(inner):
            raise SettingsError(f"{source}: {name} is {value!r}; expected one of {', '.join(get_args(inner))}")
        if isinstance(inner, type) and issubclass(inner, Section):
            known[key] = {} if value is None else _known_keys(value, inner, f"{name}.", source)
        elif get_args(inner)[-1:] == (Price,):
            known[key] = _known_keys_of_prices(value, name, source)
        elif get_args(inner)[:1] == (NextModel,):
            known[key] = _known_keys_of_next(value, name, source)
    return known


def _known_keys_of_next(raw: Any, where: str, source: str) -> Any:
    if not isinstance(raw, list):
        return [] if raw is None else raw
    if len(raw) > MAX_NEXT_MODELS:
        raise SettingsError(f"{source}: {where} has {len(raw)} models; at most {MAX_NEXT_MODELS}")
    return [_known_keys(model, NextModel, f"{where}[{place}].", source) for place, model in enumerate(raw)]


def _known_keys_of_prices(raw: Any, where: str, source: str) -> Any:
    if not isinstance(raw, dict):
        return {} if raw is None else raw
    return {model: _known_keys(price, Price, f"{where}.{model}.", source) for model, price in raw.items()}


def _told(error: msgspec.ValidationError, raw: Any) -> str:
    """What msgspec says, with the key first and what was found there."""
    message, _, path = str(error).rpartition(" - at `$.")
    if not message:
        return str(error)
    path = path.rstrip("`")
    for key in path.split("."):
        raw = raw.get(key) if isinstance(raw, dict) else None
    found = "" if raw is None or isinstance(raw, dict) else f" is {repr(raw)[:80]};"
    return f"{path}{found or ':'} {message[:1].lower()}{message[1:]}"


def _refuse_bad_patterns(protected: ProtectedSettings, source: str) -> None:
    for name, patterns, problem_with in (
        ("files", protected.files, problem_with_file_pattern),
        ("branches", protected.branches, problem_with_branch_pattern),
    ):
        if len(patterns) > MAX_PATTERNS:
            raise SettingsError(f"{source}: protected.{name} has {len(patterns)} patterns; at most {MAX_PATTERNS}")
        for problem in filter(None, map(problem_with, patterns)):
            raise SettingsError(f"{source}: protected.{name}: {problem}")


def _refuse_bad_numbers(section: Section, where: str, source: str) -> None:
    for name in section.__struct_fields__:
        value = getattr(section, name)
        if isinstance(value, Section):
            _refuse_bad_numbers(value, f"{where}{name}.", source)
        elif isinstance(value, dict):
            for key, inner in value.items():
                _refuse_bad_numbers(inner, f"{where}{name}.{key}.", source)
        elif isinstance(value, tuple):
            for place, inner in enumerate(value):
                if isinstance(inner, Section):
                    _refuse_bad_numbers(inner, f"{where}{name}[{place}].", source)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            free = isinstance(section, Price) and value == 0
            if not (free or 0 < value < 1e12):
                raise SettingsError(f"{source}: {where}{name} is {value}; expected a number above 0 and below 1e12")
