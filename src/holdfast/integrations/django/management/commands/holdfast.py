"""``manage.py holdfast worker`` and all other commands of ``holdfast``, for the jobs of this project."""

import os
import site
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError

from holdfast.errors import ConfigurationError

TARGET = "holdfast.integrations.django.worker"
USAGE = "manage.py holdfast [--backend NAME] worker|check|jobs|… [options]"


class Command(BaseCommand):  # type: ignore[misc]
    """Replaces this process with ``holdfast …``: the supervisor of workers must not have Django, or any code of the project, in it."""

    help = f"Run a command of Holdfast for the jobs of this project: {USAGE}"

    def run_from_argv(self, argv: Sequence[str]) -> NoReturn:
        """Replace this process; Django's own options are not for Holdfast."""
        try:
            backend, rest = split(argv[2:])
            given = environment(backend, os.environ, sys.path)
            if rest[:1] == ["worker"] and "--help" not in rest:
                require_app(given["HOLDFAST_APP"], is_named=backend is not None)
        except (CommandError, ConfigurationError) as error:
            sys.stderr.write(f"error: {error}\n")
            sys.exit(2)
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, "-m", "holdfast.cli", *rest], given)

    def handle(self, *args: Any, **options: Any) -> None:
        """Refuse ``call_command``, whose caller would be replaced."""
        raise CommandError("call_command would replace this process: use the App, get_app().check() and the like")


def split(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the backend that is named, and what follows, which goes to ``holdfast`` unchanged.

    >>> split(["--backend", "mail", "worker", "--processes", "2"])
    ('mail', ['worker', '--processes', '2'])
    """
    if arguments[:1] == ["--backend"]:
        if len(arguments) < 2:
            raise CommandError(f"--backend needs a name: {USAGE}")
        return arguments[1], list(arguments[2:])
    if arguments and arguments[0].startswith("--backend="):
        return arguments[0].partition("=")[2], list(arguments[1:])
    return None, list(arguments)


def environment(backend: str | None, given: Mapping[str, str], path: Sequence[str]) -> dict[str, str]:
    """Return the environment of the command: what ``manage.py`` has found, by ``--pythonpath`` too, its workers find as well."""
    named = {} if backend is None and given.get("HOLDFAST_APP") else {"HOLDFAST_APP": f"{TARGET}:{backend or chosen()}"}
    folders = dict.fromkeys(os.path.abspath(each) for each in path if not _is_of_python(each))
    return {**given, **named, "PYTHONPATH": os.pathsep.join(folders)}


def require_app(target: str, *, is_named: bool) -> None:
    """Raise ``ConfigurationError`` if no setting describes the App of the workers: the supervisor would learn it from one that ends.

    A project whose settings do not name Holdfast is left to the command, which may have been given ``MODULE:APP``.
    """
    from django.conf import settings

    from holdfast.integrations.django import wiring

    module, _, backend = target.partition(":")
    if module == TARGET and "APP" not in getattr(settings, "HOLDFAST", {}) and (is_named or wiring.is_too_old()):
        wiring.described(backend)


def _is_of_python(folder: str) -> bool:
    """Return whether this interpreter looks there anyway; a program of another release that a job starts must not look there."""
    library = sysconfig.get_path("stdlib")
    others = (*site.getsitepackages(), site.getusersitepackages())
    return folder.startswith(library) or folder in others or folder.endswith(".zip")


def chosen() -> str:
    """Return the backend that is meant if none is named."""
    from holdfast.integrations.django.wiring import backends

    there_are = list(backends())
    return there_are[0] if len(there_are) == 1 else "default"
