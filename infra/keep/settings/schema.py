"""The PM's settings, `minifram.yaml` (spec/ARCHITECTURE.md): a struct for each section, its bounds in the types, what a
key means below it: `minifram config` shows it. The runner gets its part through `boot.Boot`."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from infra.keep.protection import problem_with_branch_pattern, problem_with_file_pattern
from infra.keep.settings.models import problems_with_keys
from infra.shared.boot import OPERATIONS, TOOLS, Limits
from infra.shared.network import problem_with_host_name
from infra.shared.policy import Policy
from infra.shared.web import WebTool

QUERY = "{query}"
Amount = Annotated[float, Meta(gt=0, lt=1e12)]
Rate = Annotated[float, Meta(ge=0, lt=1e12)]
Count = Annotated[int, Meta(gt=0, lt=10**12)]
HostName = Annotated[str, Meta(extra={"problem_with": problem_with_host_name})]
HostNames = Annotated[tuple[HostName, ...], Meta(max_length=500)]
FilePattern = Annotated[str, Meta(extra={"problem_with": problem_with_file_pattern})]
BranchPattern = Annotated[str, Meta(extra={"problem_with": problem_with_branch_pattern})]
_MOST_PATTERNS = Meta(max_length=100)


def _problem_with_search(url: str) -> str:
    shown, problem = f"{url[:200]!r}", ""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"{shown} is not an address ({error})"
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        problem = "holds a character that no address has"
    elif parts.scheme not in ("http", "https") or not host:
        problem = "is no http or https address"
    elif "@" in parts.netloc:
        problem = "holds a user name or password, which every result would show"
    elif QUERY not in parts.path + parts.query or QUERY in parts.netloc:
        problem = f"must hold {QUERY} behind the host, where the words go"
    return problem and f"{shown} {problem}; expected something such as https://search.example.org/search?q={QUERY}"


def _problem_with_page(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme in ("http", "https") and parts.hostname and url.isascii() and url.isprintable():
        return ""
    return f"{url[:200]!r} is no http or https address; expected something such as https://agents.example.org"


class Price(msgspec.Struct, frozen=True):
    """US dollars per million tokens."""

    input: Rate
    output: Rate
    cache_write: Rate | None = None
    """Default: 1.25 x input."""
    cache_read: Rate | None = None
    """Default: 0.1 x input."""


class NextModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is tried when those before it cannot answer; what is left out is as for any model."""

    provider: Literal["scripted", "anthropic", "openai", "ollama"]
    name: str | None = None
    base_url: str | None = None
    max_tokens: Count | None = None
    api: Literal["auto", "responses", "chat"] = "auto"
    tools: bool = True


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    provider: Literal["auto", "scripted", "anthropic", "openai", "ollama"] = "auto"
    """scripted: fixed words, no key, no cost; anthropic: Claude; openai: OpenAI and servers that speak as it does;
    ollama: models of your own machine; auto: Claude when ANTHROPIC_API_KEY is
    set at `up`, else OpenAI when OPENAI_API_KEY is, else scripted."""
    name: str | None = None
    """The provider's model name; None: claude-opus-5-5, gpt-6.1-terra or qwen3. For scripted, a script's path."""
    max_tokens: Count = 16_000
    """Output tokens of one call."""
    base_url: str | None = None
    """Where the provider is; None is the provider's own address, for ollama http://127.0.0.1:11434. With auto, it and
    the name beside it are Claude's alone."""
    api: Literal["auto", "responses", "chat"] = "auto"
    """openai only: the Responses API, in which models reason while they use tools, or Chat Completions, which more
    servers speak. auto: responses at OpenAI's own address, chat at any other."""
    prices: dict[str, Price] = {}
    """Prices by model name, for names that the model door does not know."""
    then: Annotated[tuple[NextModel, ...], Meta(max_length=8)] = ()
    """Models to try, in this order, when one is too busy or cannot be reached, such as
    [{provider: ollama, name: qwen3}]; each is asked twice before the next. Keys: provider, name, base_url,
    max_tokens, api, tools."""
    tools: bool = True
    """false: the model has no tool calling, and asks for acts by lists in plain text (`SPEC_PROTOCOL`), and so do the
    others."""

    def __post_init__(self) -> None:
        if problems := problems_with_keys(self):
            raise ValueError("\n".join(f"then: {problem}" for problem in problems))


class BudgetSettings(msgspec.Struct, frozen=True):
    daily_usd: Amount = 10.0
    """US dollars per UTC day. A call whose worst case would exceed it is refused. A model that costs nothing is not
    bounded."""


class LimitSettings(msgspec.Struct, frozen=True):
    bash_seconds: Amount = 600.0
    """The longest that one command of the model may run."""
    run_steps: Count = 200
    """The most model calls in one run."""
    run_seconds: Amount = 7200.0
    """The longest that one run may take."""
    blob_bytes: Count = 10 * 1024 * 1024
    """The largest file that the git door accepts."""
    log_bytes: Count = 20 * 1024 * 1024
    """A log larger than this is cut at the next start; its end is kept beside it as `.1`. While the agent runs, logs
    that grow by this much in a minute, or one three times this size, are cut; if it goes on, the runner is stopped."""


class ProtectedSettings(msgspec.Struct, frozen=True):
    files: Annotated[tuple[FilePattern, ...], _MOST_PATTERNS] = ()
    """Patterns of paths that the agent may not change on main, such as [SYSTEM.md, spec/, '*.lock']. A pattern protects
    everything below what it matches; `*` also matches `/`."""
    branches: Annotated[tuple[BranchPattern, ...], _MOST_PATTERNS] = ("pm/*",)
    """Patterns of branches that the agent may not create or move."""


EgressMode = Literal["open", "door"]


class EgressSettings(msgspec.Struct, frozen=True):
    mode: EgressMode = "open"
    """open: the agent reaches every public address; door: nothing but the keep's doors, pages by its web tools and
    packages from `web.package_hosts`. For the sealed container."""


class GhostSettings(msgspec.Struct, frozen=True):
    """Reading a page from a picture of it, by a model that sees, when a page cannot be read otherwise. It costs."""

    enabled: bool = False
    """true: it may be used, where a call or a job says allow_ghost, too."""
    auto_trigger: bool = True
    """A page that is blocked is rendered, and then read from its picture, without being asked for again; false: only by
    the tool ghost_extract."""
    vision_provider: Literal["scripted", "anthropic", "openai", "ollama"] | None = None
    """Of the models of the settings, whose is asked; None: the first that takes images."""
    max_image_width: Annotated[int, Meta(ge=320, le=2000)] = 1280
    """Pixels."""


class StreamSettings(msgspec.Struct, frozen=True):
    """What the browser shows, live, for `minifram serve`."""

    enabled: bool = False
    """true: the last frame of each page that is shown is kept, and given to the page of `minifram serve`."""
    quality: Annotated[int, Meta(ge=1, le=80)] = 25
    """Of JPEG."""
    max_width: Annotated[int, Meta(ge=160, le=1920)] = 854
    """Pixels."""


class WebSettings(msgspec.Struct, frozen=True):
    """What the web door fetches for the agent's web tools. `policy.private_networks` and the rules that deny a domain
    hold there too."""

    allowed_domains: HostNames = ()
    """Names whose pages the web tools may read, each with all names below it; none: every public one."""
    keep_raw_html: bool = False
    """true: a result may hold the page's HTML as it came, when the model asks for it."""
    search_url: Annotated[str | None, Meta(extra={"problem_with": _problem_with_search})] = None
    """Where web_search asks, with {query} in it: a server that answers as SearXNG does with format=json."""
    package_hosts: HostNames = ()
    """egress.mode door only: hosts that pip, uv and npm reach through the door, such as [pypi.org,
    files.pythonhosted.org]."""
    browser: Literal["off", "on"] = "off"
    """on: pages can be rendered, by a browser in a container of its own."""
    pool_size: Annotated[int, Meta(ge=1, le=4)] = 1
    """Browsers that are kept warm while they are used."""
    taints: bool = True
    """Once the agent has read a page, what steers it comes onto main by your merge alone, until you say `minifram
    trust`. false: what it reads changes nothing of what it may do."""
    ghost: GhostSettings = GhostSettings()
    stream: StreamSettings = StreamSettings()


class InternalSettings(msgspec.Struct, frozen=True):
    """Jobs that other programs give to `minifram serve`: bounded runs in the agent's sandbox, beside its own work."""

    enabled: bool = False
    """true: jobs are taken. They cost from the day's budget."""
    max_steps: Count = 12
    """The most model calls of a job."""
    max_wall_time_ms: Count = 90_000
    """The longest that a job may take."""
    max_failures: Count = 3
    """Calls of tools that fail in a row, which end it."""
    allowed_tools: Annotated[
        tuple[Literal["read_file", "write_file", "edit_file", "delete_file", "bash", WebTool], ...],
        _MOST_PATTERNS,
    ] = ()
    """The tools that a job may use, such as [fetch_page, read_file]; none by default."""
    allowed_domains: HostNames = ()
    """Where a job may send fetch_page, each with all names below it; none: wherever the policy allows."""


class AgentSettings(msgspec.Struct, frozen=True):
    internal: InternalSettings = InternalSettings()


class MindSettings(msgspec.Struct, frozen=True):
    on_drift: Literal["report", "safe_mode"] = "report"
    """What follows when a file of the mind that is yours alone is not as you wrote it. report: it is put back and you
    are told; safe_mode: only the base agent runs until it is as it was."""


class ExplorationSettings(msgspec.Struct, frozen=True):
    usd: Amount | None = None
    """US dollars that the agent may use up on its own curiosity in a UTC day; None: with nothing to do no model is
    called. A model that costs nothing explores for an hour a day."""


class PodmanSettings(msgspec.Struct, frozen=True):
    """The container. What the machine cannot limit is not limited; `minifram doctor` says so."""

    network: Literal["auto", "none"] = "auto"
    """none: the container has no network but its own loopback device, and so only the scripted model."""
    base: str | None = None
    """The image to build on; None: Debian's when podman knows a registry, else one made here with mmdebstrap."""
    eye_base: str | None = None
    """The same for the image of the browser (web.browser)."""
    pids: Count = 2048
    """Processes and threads."""
    memory_bytes: Count = 4 * 1024**3
    """Memory of everything in the container."""
    cpus: Amount | None = None
    """How many processors' time it may use; None: all."""


Kind = Literal["approval", "stopped", "pinned", "budget", "seal", "done"]


class NotifySettings(msgspec.Struct, frozen=True):
    """Sent from your machine, never from the container."""

    command: str | None = None
    """A shell command that gets each notification as JSON on its standard input; it has 30 s. It runs as you, outside
    any sandbox."""
    page: Annotated[str | None, Meta(extra={"problem_with": _problem_with_page})] = None
    """Where you open the page of `minifram serve`, such as https://agents.example.org: notifications lead to it, and it
    answers to that name."""
    on: tuple[Kind, ...] = ("approval", "stopped", "pinned", "budget", "seal", "done")
    """approval: a call waits for your answer; stopped: a run stopped, or the agent does not run though it should;
    pinned: a version was blocked, or another runs in place of main; budget: the day's is nearly or wholly used up;
    seal: the container could not be sealed; done: a run on your directives is done."""


class Settings(msgspec.Struct, frozen=True):
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
    policy: Policy = Policy()
    web: WebSettings = WebSettings()
    mind: MindSettings = MindSettings()
    exploration: ExplorationSettings = ExplorationSettings()
    podman: PodmanSettings = PodmanSettings()
    agent: AgentSettings = AgentSettings()
    notify: NotifySettings = NotifySettings()


def runner_limits(settings: Settings) -> Limits:
    limits = settings.limits
    return Limits(
        bash_seconds=limits.bash_seconds,
        run_steps=limits.run_steps,
        run_seconds=limits.run_seconds,
        has_browser=settings.web.browser == "on",
        has_ghost=settings.web.browser == "on" and settings.web.ghost.enabled,
    )


def runner_acts(settings: Settings) -> str:
    """How the model asks for acts, as `boot.Boot` carries it: as far as the settings say."""
    has_tools = settings.model.tools and all(each.tools for each in settings.model.then)
    return TOOLS if has_tools else OPERATIONS
