"""What Holdfast's worker processes import: the tasks, and word of having done so."""

from __future__ import annotations

from bench.peers_torture import journal
from bench.peers_torture.contestants.holdfast import app

journal.say_up()

__all__ = ["app"]
