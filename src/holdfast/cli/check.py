"""``holdfast check``."""

import click

from holdfast.cli.options import JSON, TARGET


@click.command()
@TARGET
@JSON
@click.pass_context
def check(context: click.Context, target: str, as_json: bool) -> None:
    """Say what is right and wrong with settings and store.

    The exit code is 1 if anything is wrong.
    """
    from holdfast.cli.loading import opened
    from holdfast.cli.printing import print_json, print_table

    with opened(target) as app:
        findings = app.check()
    if as_json:
        print_json(findings)
    else:
        rows = [(finding.level, finding.name, finding.message, finding.remedy) for finding in findings]
        print_table(("level", "name", "finding", "remedy"), rows, empty="nothing to say")
    context.exit(1 if any(finding.level == "error" for finding in findings) else 0)
