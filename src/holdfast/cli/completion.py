"""``holdfast completion``."""

import click

VARIABLE = "_HOLDFAST_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script for Tab completion.

    It completes commands, options, Apps, states, and the queues, tasks and jobs of a store that --app, --url,
    HOLDFAST_APP or HOLDFAST_URL names.

    \b
    bash: holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
    zsh:  holdfast completion zsh > "${fpath[1]}/_holdfast"
    fish: holdfast completion fish > ~/.config/fish/completions/holdfast.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    complete = kind(context.find_root().command, {}, "holdfast", VARIABLE)
    # Not `source()`, which for bash runs a shell only to learn its version.
    click.echo(complete.source_template % complete.source_vars())
