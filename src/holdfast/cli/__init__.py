"""The command line. This file stays light: worker processes import the package, and need neither click nor rich."""


def main() -> None:
    """Run the ``holdfast`` command."""
    from holdfast.cli.commands import root

    root.main(prog_name="holdfast")
