"""The tip of a branch of the shared repository, seen from a clone (`tip.Tip`)."""

from __future__ import annotations

from infra.shared.repository.git import Git, GitError

_STARTS = "push again in a moment"
"""What the git door's hook says while the door is being started again."""


class DoorRefused(GitError):
    """The git door said no. It will say no again, so there is nothing to wait for."""

    @property
    def said(self) -> str:
        """Its words, without git's marks around them."""
        lines = [line.removeprefix("remote:").strip() for line in self.stderr.splitlines() if line[:7] == "remote:"]
        return "\n".join(filter(None, lines)) or self.stderr.strip()


class CloneTip:
    """A push through the git door moves it."""

    def __init__(self, git: Git, branch: str = "main") -> None:
        self.git = git
        self._branch = branch

    def look(self) -> str:
        ref = f"refs/remotes/origin/{self._branch}"
        fetch = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "origin")
        self.git(*fetch, f"+refs/heads/{self._branch}:{ref}")
        return self.git("rev-parse", "--verify", ref)

    def move(self, old: str, new: str) -> bool:
        ref = f"refs/heads/{self._branch}"
        try:
            # The lease forces nothing, as `new` is built on `old`; it tells a tip that moved back from one that stayed.
            self.git("push", "--quiet", "--porcelain", f"--force-with-lease={ref}:{old}", "origin", f"{new}:{ref}")
        except GitError as error:
            verdict = [line for line in error.stdout.decode(errors="replace").splitlines() if line.startswith("!")]
            if any(line.endswith(_LOST) for line in verdict):
                return False
            now = self.look()
            if now == old:
                kind = DoorRefused if error.is_refusal and _STARTS not in error.stderr else GitError
                raise kind(error.words, error.status, "\n".join([error.stderr, *verdict]), error.stdout) from None
            return now == new
        return True


_LOST = (
    "(stale info)",
    "(fetch first)",
    "(non-fast-forward)",
    "(failed to update ref)",
    "(cannot lock ref)",
    "(incorrect old value provided)",
)
"""How git's own line on a push ends when another push was first. Nothing else is looked at: the door's words come
on other lines, and might be the same."""
