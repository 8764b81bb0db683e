"""The PM's settings, `minifram.yaml` (spec/ARCHITECTURE.md): frozen typed values, parsed once, unknown keys refused.

Read by the keep and by the `minifram` command. The runner gets its part through `boot.Boot`."""

from __future__ import annotations

from typing import Literal

import msgspec

from infra.keep.model_settings import ModelSettings, lacks_tools
from infra.keep.section import Section
from infra.shared.boot import OPERATIONS, TOOLS, Limits
from infra.shared.policy import Policy, Rule, to_text


class BudgetSettings(Section, frozen=True):
    daily_usd: float = 10.0
    """US dollars per UTC day. A call whose worst case would exceed it is refused. A model that costs nothing is not
    bounded."""


class LimitSettings(Section, frozen=True):
    bash_seconds: float = 600.0
    """The longest that one command of the model may run."""
    run_steps: int = 200
    """The most model calls in one run."""
    run_seconds: float = 7200.0
    """The longest that one run may take."""
    blob_bytes: int = 10 * 1024 * 1024
    """The largest file that the git door accepts."""
    log_bytes: int = 20 * 1024 * 1024
    """A log larger than this is cut at the next start; its end is kept beside it as `.1`. While the agent runs, logs
    that grow by this much in a minute, or one three times this size, are cut; if it goes on, the runner is stopped."""


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
    """What to do with a tool call that no rule matches: allow, deny, or ask: it waits for `minifram approve`."""
    private_networks: Literal["allow", "deny"] = "deny"
    """deny: refuse a call that names a private, link-local or other non-public address; loopback is allowed."""
    rules: tuple[PolicyRule, ...] = ()
    """In order, the first that matches counts (SPEC_POLICY), such as [{do: ask, effects: [auth]}, {do: deny, commands:
    ['git push *'], why: I push}]; conditions: tools, effects, commands, paths, domains."""


EgressMode = Literal["open", "door"]


class EgressSettings(Section, frozen=True):
    mode: EgressMode = "open"
    """open: the agent reaches every public address; door: nothing but the keep's doors, pages by its web tools and
    packages from `web.package_hosts`. For the sealed container."""


class WebSettings(Section, frozen=True):
    """What the web door fetches for the agent's web tools. `policy.private_networks` and the rules that deny a domain
    hold there too."""

    allowed_domains: tuple[str, ...] = ()
    """Names whose pages the web tools may read, each with all names below it; none: every public one."""
    keep_raw_html: bool = False
    """true: a result may hold the page's HTML as it came, when the model asks for it."""
    search_url: str | None = None
    """Where web_search asks, with {query} in it: a server that answers as SearXNG does with format=json."""
    package_hosts: tuple[str, ...] = ()
    """egress.mode door only: hosts that pip, uv and npm reach through the door, such as [pypi.org,
    files.pythonhosted.org]."""
    taints: bool = True
    """Once the agent has read a page, what steers it comes onto main by your merge alone, until you say `minifram
    trust`. false: what it reads changes nothing of what it may do."""


class MindSettings(Section, frozen=True):
    on_drift: Literal["report", "safe_mode"] = "report"
    """What follows when a file of the mind that is yours alone is not as you wrote it. report: it is put back and you
    are told; safe_mode: only the base agent runs until it is as it was."""


class ExplorationSettings(Section, frozen=True):
    usd: float | None = None
    """US dollars that the agent may use up on its own curiosity in a UTC day; None: with nothing to do no model is
    called. A model that costs nothing explores for an hour a day."""


class PodmanSettings(Section, frozen=True):
    """The container. What the machine cannot limit is not limited; `minifram doctor` says so."""

    network: Literal["auto", "none"] = "auto"
    """none: the container has no network but its own loopback device, and so only the scripted model."""
    base: str | None = None
    """The image to build on; None: Debian's when podman knows a registry, else one made here with mmdebstrap."""
    pids: int = 2048
    """Processes and threads."""
    memory_bytes: int = 4 * 1024**3
    """Memory of everything in the container."""
    cpus: float | None = None
    """How many processors' time it may use; None: all."""


Kind = Literal["approval", "stopped", "pinned", "budget", "seal", "done"]


class NotifySettings(Section, frozen=True):
    """Sent from your machine, never from the container."""

    command: str | None = None
    """A shell command that gets each notification as JSON on its standard input; it has 30 s. It runs as you, outside
    any sandbox."""
    on: tuple[Kind, ...] = ("approval", "stopped", "pinned", "budget", "seal", "done")
    """approval: a call waits for your answer; stopped: a run stopped, or the agent does not run though it should;
    pinned: a version was blocked, or another runs in place of main; budget: the day's is nearly or wholly used up;
    seal: the container could not be sealed; done: a run on your directives is done."""


class Settings(Section, frozen=True):
    sandbox: Literal["podman", "process"] = "podman"
    """podman: a sealed container; process: plain directories, no isolation. `minifram init` writes it, and nothing else
    changes it."""
    autonomy: Literal["merge", "propose", "frozen"] = "merge"
    """merge: the agent merges what the keep has examined; propose: only you move main; frozen: reports only."""
    model: ModelSettings = ModelSettings()
    budget: BudgetSettings = BudgetSettings()
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
    return Limits(bash_seconds=limits.bash_seconds, run_steps=limits.run_steps, run_seconds=limits.run_seconds)


def policy_of(settings: Settings) -> Policy:
    given = settings.policy
    rules = tuple(Rule(**msgspec.structs.asdict(rule)) for rule in given.rules)
    return Policy(given.default, given.private_networks, rules)


def runner_acts(settings: Settings) -> str:
    """How the model asks for acts, as `boot.Boot` carries it: as far as the settings say."""
    return OPERATIONS if lacks_tools(settings.model) else TOOLS


def runner_policy(settings: Settings) -> str:
    """The policy as `boot.Boot` carries it."""
    policy = policy_of(settings)
    return "" if policy == Policy() else to_text(policy)
