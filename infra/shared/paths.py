"""All paths. They are derived from one value, so that the same programs run in the container and in a plain
directory."""

from __future__ import annotations

import os

import msgspec

from infra.shared.branches import MAIN, problem_with_branch


class Paths(msgspec.Struct, frozen=True):
    """Absolute paths of the four trees; who may write each is settled by the sandbox, not here."""

    bot: str
    """The cell's own: one clone per branch, the mind, the signals."""
    remote: str
    """The bare repository on the host."""
    run: str
    """The keep's sockets. Short: a unix socket's path holds 107 bytes (unix(7))."""
    var: str
    """The keep's state: watcher state and log, ledger."""

    def checkout(self, branch: str) -> str:
        """The clone of `branch`. Raises ValueError for what cannot be a branch of ours."""
        problem = problem_with_branch(branch)
        if problem:
            raise ValueError(problem)
        return f"{self.bot}/{branch}/minifram"

    @property
    def main_checkout(self) -> str:
        return self.checkout(MAIN)

    @property
    def mind(self) -> str:
        return f"{self.bot}/mind"

    @property
    def events(self) -> str:
        """The log of the mind's events, which the keep writes and everybody reads; the mind's clone has a link to it
        (`layout.EVENTS`)."""
        return os.path.join(os.path.dirname(self.bot), "events")

    @property
    def signals(self) -> str:
        return f"{self.bot}/.signal"

    @property
    def environments(self) -> str:
        """The cell's own: what branches have installed that ask for other packages than the keep has."""
        return f"{self.bot}/.environments"

    def home(self, boot_id: str) -> str:
        """HOME of the cell in one boot, and of no other."""
        return f"{self.bot}/{HOMES}{boot_id}"

    @property
    def cell_git_config(self) -> str:
        """The git configuration of everything in the cell: who commits, and which door pushes go through."""
        return f"{self.bot}/.gitconfig"

    @property
    def model_socket(self) -> str:
        return f"{self.run}/model.sock"

    @property
    def git_socket(self) -> str:
        return f"{self.run}/git.sock"

    @property
    def web_socket(self) -> str:
        return f"{self.run}/web.sock"

    @property
    def secrets(self) -> str:
        return f"{self.run}/secrets"

    @property
    def watcher_state(self) -> str:
        return f"{self.var}/watcher.json"

    @property
    def watcher_log(self) -> str:
        return f"{self.var}/watcher.log"

    @property
    def watcher_lock(self) -> str:
        return f"{self.var}/watcher.lock"

    @property
    def questions(self) -> str:
        """The calls that the PM was asked about, a file each (`keep.questions`)."""
        return f"{self.var}/questions"

    @property
    def web_trace(self) -> str:
        """A line for each request that the web door served or refused (`shared.web`)."""
        return f"{self.var}/web.jsonl"

    @property
    def picture(self) -> str:
        """What the browser shows, or showed last (`shared.web.shown`)."""
        return f"{self.var}/picture"

    @property
    def ledger(self) -> str:
        return f"{self.var}/ledger.jsonl"


ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""What holds this `infra`: the project, the image's copy of it, or the keep's copy of a commit."""

PICTURE_VARIABLE = "MINIFRAM_PICTURE"
"""In the web door's environment: the descriptor of `Paths.picture`, which it cannot open itself."""
WEB_SOCKET_VARIABLE, WEB_PYTHON_VARIABLE = "MINIFRAM_WEB_SOCKET", "MINIFRAM_WEB_PYTHON"
RUN_VARIABLE, STEP_VARIABLE, CHECKOUT_VARIABLE = "MINIFRAM_RUN", "MINIFRAM_STEP", "MINIFRAM_CHECKOUT"
LABEL_VARIABLE = "MINIFRAM_LABEL"
"""In the environment of the agent's shells: where `minifram-web` finds the web door, what it runs with, for which
checkout and for whose money; its code lies elsewhere."""
CONTAINER = Paths(bot="/bot", remote="/mnt/remote", run="/run/minifram", var="/var/lib/minifram")
EYE_SOCKET = "/run/eye/eye.sock"
"""In the containers of an agent and of its browser: all that they share."""
CODE = "/code"
"""In the container: where the copies lie that runners are started from. It may execute, as `/run` may not."""

BASE_PROMPT, SERVICES = "SYSTEM.md", "services.yaml"
BODY = ("infra", "requirements.lock", "requirements.txt", BASE_PROMPT, SERVICES)
"""In a commit: what a running agent is made of, but for the keep's part of it (`repository.version`). Two commits that
have the same of it are the same version; when main's differs from what runs, another runner has to take over."""
PAGE, ARCHIVE = "COMMS.md", "COMMS-ARCHIVE.md"
PAGES = (PAGE, ARCHIVE)
"""What the keep and the PM write; in a push of the agent's both are as main has them."""
HOMES = ".home-"
ASIDE = "minifram.aside-"
"""With a time behind it, beside main's clone: one that another took the place of."""
BOOT_LOG = "logs/bootstrap.log"
"""In a checkout: one line per step of a boot (`boot`)."""
ERROR_LOG = "logs/errors.log"
"""In a checkout: everything the runner writes to stdout and stderr."""
TRANSCRIPTS, OUTPUTS = "logs/transcripts", "logs/outputs"
"""In a checkout: the records of its runs, and what a run is resumed or continued from beside them."""
RECORDS = (BOOT_LOG, f"{TRANSCRIPTS}/", f"{OUTPUTS}/")
"""In a checkout, by the beginning of their paths: what no limit on logs empties."""
LIFE_FILE = "logs/life.json"
"""In a checkout: what the runner says it is doing."""
SLEEPING = "sleeping"
"""There, while it waits for work."""
