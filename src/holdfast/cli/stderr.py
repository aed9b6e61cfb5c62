"""What a supervisor prints on stderr, which may be closed, full or without a reader; none of this ends a worker."""

import os
import sys
from contextlib import suppress

import click


def open_missing() -> None:
    """Open missing standard streams: the next file or socket would take the number of a closed one, and prints would go there."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def write_stderr(text: str) -> None:
    """Write a line or more, if stderr can still be written."""
    with suppress(OSError, ValueError):
        click.echo(text, err=True)


def discard_unwritable() -> None:
    """Drop at the end what could not be written, so that it does not become the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
