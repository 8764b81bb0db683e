"""The PM's settings, `minifram.yaml` (spec/ARCHITECTURE.md): frozen typed values, parsed once, unknown keys refused.

Read by the keep and by the `minifram` command. The runner gets its part through `boot.Boot`."""

from __future__ import annotations

from typing import Literal

import msgspec

from infra.shared.boot import OPERATIONS, TOOLS, Limits
from infra.shared.mind_settings import ExplorationSettings, MindSettings, RunnerMind, to_json
from infra.shared.model_settings import ModelSettings, lacks_tools
from infra.shared.notify_settings import NotifySettings
from infra.shared.policy import Policy, Rule, to_text
from infra.shared.providers import AUTO
from infra.shared.section import Section


class BudgetSettings(Section, frozen=True):
    daily_usd: float = 10.0
    """US dollars per UTC day. A call whose worst case would exceed it is refused."""
    daily_tokens: int = 20_000_000
    """The same limit in tokens of all kinds."""
    unit_usd: float = 5.0
    """US dollars for all work on the open directives. A call that could exceed it is refused; the run then reports."""
    unit_tokens: int = 10_000_000
    """The same limit in tokens."""
    unpriced: bool = False
    """true: a model without a known price may be used; only its tokens are limited."""


class CommsSettings(Section, frozen=True):
    keep_reports: int = 12
    """How many reports COMMS.md holds. It is part of every prompt; older reports move to COMMS-ARCHIVE.md."""
    page_bytes: int = 24 * 1024
    """When COMMS.md is larger than this, its oldest reports move to COMMS-ARCHIVE.md. Your directives never do."""


class IntervalSettings(Section, frozen=True):
    work_seconds: float = 600.0
    """The agent reads COMMS.md at least this often, on the clock's grid."""
    check_seconds: float = 600.0
    """How often the watcher checks that an agent runs."""
    poll_seconds: float = 1.0
    """How often signals and refs are checked when no file event arrives."""


LEAST_CPU_SECONDS = 1800.0


class LimitSettings(Section, frozen=True):
    bash_seconds: float = 600.0
    """The longest that one command of the model may run."""
    output_chars: int = 10_000
    """The longest result of a tool; a longer one is cut in the middle."""
    unit_steps: int = 200
    """The most model calls in one run."""
    unit_seconds: float = 7200.0
    """The longest that one run may take."""
    context_tokens: int = 150_000
    """The longest conversation sent to the model. With `model.max_tokens` it must fit the model's context window."""
    validation_seconds: float = 900.0
    """The longest that the tests of a branch may run."""
    rehearsal_seconds: float = 20.0
    """The longest that a branch's rehearsal may take, without the time that it waited for the machine."""
    install_seconds: float = 600.0
    """The longest that installing a branch's requirements may take."""
    boot_seconds: float = 60.0
    """A runner that has not reported SUCCESS within this time is stopped."""
    probation_seconds: float = 600.0
    """A version that has run this long is known good: the watcher falls back to it when a later one fails."""
    hops: int = 6
    """How often within ten minutes a branch may be launched while main does not change."""
    make_way_seconds: float = 300.0
    """When main changes, the runner must make way for it within this time; then it is stopped."""
    door_seconds: float = 10.0
    """How long a starting runner waits for the doors."""
    grace_seconds: float = 10.0
    """Between SIGTERM and SIGKILL; also between a signal file and the runner's own exit."""
    blob_bytes: int = 10 * 1024 * 1024
    """The largest file that the git door accepts."""
    log_bytes: int = 20 * 1024 * 1024
    """A log larger than this is cut at the next start; its end is kept beside it as `.1`. While the agent runs, logs
    that grow by this much in a minute, or one three times this size, are cut; if it goes on, the runner is stopped."""
    sample_seconds: float = 30.0
    """How often the watcher samples what the agent uses of the machine."""
    cpu_seconds: float | None = None
    """When all processors are busy this long, twice in a row, without a model call or a push, the runner is stopped.
    Not less than `limits.bash_seconds` and `limits.validation_seconds`; None: 1800, or the longer of these."""
    cpu_fraction: float = 0.95
    """The share of processor time that counts as all of it."""
    cpu_cores: float | None = None
    """How many processors count as all; None: those that the agent may use."""
    free_bytes: int = 256 * 1024 * 1024
    """When a disk has less space free than this, or fewer than 5 % of its inodes, room is made; an agent that goes on
    filling it is stopped."""
    tokens_per_hour: int = 5_000_000
    """When a run uses more tokens than this in an hour, cached ones not counted, twice in a row without a push, the
    runner is stopped."""
    steps_per_hour: int = 3000
    """The same limit for model calls, whatever they cost. One call every 1.2 s is a loop that waits for nothing."""
    branch_dirs: int = 20
    """How many clones of branches are kept. Beyond it, the oldest that hold nothing of their own are removed."""


class ProtectedSettings(Section, frozen=True):
    files: tuple[str, ...] = ()
    """Patterns of paths that the agent may not change on main, such as [SYSTEM.md, spec/, '*.lock']. A pattern protects
    everything below what it matches; `*` also matches `/`."""
    branches: tuple[str, ...] = ("pm/*",)
    """Patterns of branches that the agent may not create or move."""


class PolicyRule(Section, frozen=True):
    """What is done with a call of a tool that meets every condition that is given (`shared.policy`)."""

    do: Literal["allow", "ask", "deny"]
    tools: tuple[str, ...] = ()
    effects: tuple[Literal["read", "write", "execute", "auth"], ...] = ()
    commands: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    why: str = ""


class PolicySettings(Section, frozen=True):
    default: Literal["allow", "ask", "deny"] = "allow"
    """What to do with a tool call that no rule matches; ask: it waits for your `minifram approve`."""
    private_networks: Literal["allow", "deny"] = "deny"
    """deny: refuse a call that names a private, link-local or other non-public address; loopback is allowed."""
    rules: tuple[PolicyRule, ...] = ()
    """In order, the first that matches counts (SPEC_POLICY), such as [{do: ask, effects: [auth]}, {do: deny, commands:
    ['git push *'], why: I push}]; conditions: tools, effects, commands, paths, domains."""


EgressMode = Literal["open", "allowlist", "door"]


class EgressSettings(Section, frozen=True):
    mode: EgressMode = "open"
    """open: the agent reaches every public address; allowlist: the names in `allow` only; door: nothing but the keep's
    doors, pages by its web tools and packages from `web.package_hosts`. For the sealed container."""
    allow: tuple[str, ...] = ()
    """allowlist only: names that the agent may reach, each with all names below it, such as [pypi.org]."""
    ipv6: bool = True
    """false: nothing leaves by IPv6."""


class WebSettings(Section, frozen=True):
    """What the web door fetches for the agent's web tools. `policy.private_networks` and the rules that deny a domain
    hold there too."""

    allowed_domains: tuple[str, ...] = ()
    """Names whose pages the web tools may read, each with all names below it; none: every public one."""
    robots: bool = True
    """false: pages are read whatever the site's robots.txt says."""
    fetch_seconds: float = 30.0
    """The longest that one page may take, with all redirects."""
    page_bytes: int = 8 * 1024 * 1024
    """The largest page that is read, unpacked; of a longer one the rest is left out, and the result says so."""
    keep_raw_html: bool = False
    """true: a result may hold the page's HTML as it came, when the model asks for it."""
    search_url: str | None = None
    """Where web_search asks, with {query} in it: a server that answers as SearXNG does with format=json."""
    package_hosts: tuple[str, ...] = ()
    """egress.mode door only: hosts that pip, uv and npm reach through the door, such as [pypi.org,
    files.pythonhosted.org]."""


class PodmanSettings(Section, frozen=True):
    """The container. What the machine cannot limit is not limited; `minifram doctor` says so."""

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
    """How many processors' time it may use; None: all."""
    tmp_bytes: int = 512 * 1024**2
    """The size of /tmp, which is in memory."""


class Settings(Section, frozen=True):
    sandbox: Literal["auto", "podman", "process"] = "auto"
    """podman: a sealed container; process: plain directories, no isolation; auto: podman where `minifram doctor` finds
    it usable for the user who runs `up`, else process. An agent that was sealed is never started unsealed by auto."""
    rehearse: bool = True
    """Each branch is first rehearsed in scratch directories; one that fails is not launched."""
    autonomy: Literal["merge", "propose", "frozen"] = "merge"
    """merge: the agent merges what the keep has examined; propose: only you move main; frozen: reports only."""
    model: ModelSettings = ModelSettings()
    budget: BudgetSettings = BudgetSettings()
    comms: CommsSettings = CommsSettings()
    intervals: IntervalSettings = IntervalSettings()
    limits: LimitSettings = LimitSettings()
    protected: ProtectedSettings = ProtectedSettings()
    egress: EgressSettings = EgressSettings()
    policy: PolicySettings = PolicySettings()
    web: WebSettings = WebSettings()
    mind: MindSettings = MindSettings()
    exploration: ExplorationSettings = ExplorationSettings()
    podman: PodmanSettings = PodmanSettings()
    notify: NotifySettings = NotifySettings()


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


def runner_acts(settings: Settings) -> str:
    """How the model asks for acts, as `boot.Boot` carries it: as far as the settings say."""
    acts = settings.model.acts
    return OPERATIONS if acts == OPERATIONS or (acts == AUTO and lacks_tools(settings.model)) else TOOLS


def runner_policy(settings: Settings) -> str:
    """The policy as `boot.Boot` carries it."""
    policy = policy_of(settings)
    return "" if policy == Policy() else to_text(policy)


def runner_mind(settings: Settings) -> str:
    """What `boot.Boot` carries for the mind."""
    return to_json(RunnerMind(settings.mind, settings.exploration))
