"""What a supervisor says on stderr. That may be closed, full, or read by nobody, and none of this ends a worker."""

import os
import sys
from contextlib import suppress

import click


def open_missing() -> None:
    """Where stdin, stdout or stderr is closed, the next file or socket would take its number, and what is printed would end there."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def write_stderr(text: str) -> None:
    """A line or more, if anybody can still read it."""
    with suppress(OSError, ValueError):
        click.echo(text, err=True)


def discard_unwritable() -> None:
    """At the end: what could not be written must not become the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
