"""`minifram completion`."""

from __future__ import annotations

import os

import click

from host.commands.options import Verb, context_of, screen_of

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=Verb)
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.pass_context
def verb(ctx: click.Context, shell: str | None) -> None:
    """Print the completion script of your shell (default: the one in $SHELL).

    \b
    Examples:
      minifram completion bash > ~/.local/share/bash-completion/completions/minifram
      minifram completion zsh > ~/.zfunc/_minifram
      minifram completion fish > ~/.config/fish/completions/minifram.fish
    """
    from click.shell_completion import get_completion_class

    from host.errors import CommandError
    from infra.shared.exit_codes import Exit

    name = shell or os.path.basename(context_of(ctx).environ.get("SHELL", ""))
    kind = get_completion_class(name) if name in SHELLS else None
    if kind is None:
        raise CommandError(Exit.USAGE, f"there is no completion for shell {name!r}; give one of {', '.join(SHELLS)}")
    # `source_template` and not `source()`: that one runs bash to look at its version.
    made = kind(ctx.find_root().command, {}, "minifram", "_MINIFRAM_COMPLETE")
    screen_of(ctx).result(made.source_template % made.source_vars())
