"""``python -m holdfast``: the ``holdfast`` command where no script of it is on the path."""

from holdfast.cli import main

main()
