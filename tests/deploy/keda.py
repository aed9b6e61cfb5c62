"""The rule by which KEDA and Kubernetes choose a number of pods, as their documents state it.

KEDA hands the figure to a HorizontalPodAutoscaler as an average for each pod. It looks every 15 s and wants ceil(figure / target), unless
that is within a tenth of what runs. It adds 4 pods or doubles them: the larger number counts. It goes down to the highest number that it
wanted in the last 300 s.
"""

import math
from collections import deque

LOOK, STABLE, TOLERANCE = 15, 300, 0.1


class Scaler:
    """A ScaledObject: ``target`` jobs for each pod, between ``least`` and ``most`` pods."""

    def __init__(self, target: int, *, least: int, most: int) -> None:
        self._target, self._least, self._most = target, least, most
        self._wanted: deque[int] = deque(maxlen=STABLE // LOOK)
        self.pods = least

    def wanted(self, figure: int) -> int:
        """Return the number of pods for a figure."""
        if self.pods and abs(figure / (self._target * self.pods) - 1) <= TOLERANCE:
            return self.pods
        return min(self._most, max(self._least, math.ceil(figure / self._target)))

    def look(self, figure: int) -> int:
        """Read the figure once, and return how many pods run then."""
        self._wanted.append(self.wanted(figure))
        up, down = self._wanted[-1], max(self._wanted)
        if up > self.pods:
            self.pods = min(up, max(self.pods + 4, 2 * self.pods))
        elif down < self.pods:
            self.pods = down
        return self.pods
