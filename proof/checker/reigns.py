"""The reigns of brokers on a bucket: each takeover begins another epoch, and no broker of an earlier one answers from its memory."""

from proof.checker.history import IN_MEMORY, Event
from proof.checker.verdicts import CheckContext, Seers


class Reigns:
    """The part of S3 on brokers: a deposed one acknowledges nothing. Its writes fail; its memory must be silent, too."""

    def __init__(self, context: CheckContext) -> None:
        self._context = context
        self._epoch = "0"

    def seers(self) -> Seers:
        """Return the events that these rules read."""
        return {"epoch": self._see_epoch, "lease": self._see_beat}

    def finish(self) -> None:
        """Do nothing: these rules need no check at the end."""

    def _see_epoch(self, event: Event) -> None:
        self._epoch = event.note

    def _see_beat(self, event: Event) -> None:
        if event.note.startswith(IN_MEMORY):
            problem = "a beat was kept in the memory of a broker after another one had taken over"
            self._context.expect("S3", event.note == IN_MEMORY + self._epoch, None, problem)
