"""A worker that imports only the standard library: it claims jobs over HTTP, sends heartbeats, and completes or fails them.

`python worker.py NAME URL [URL…]` runs until it is killed. The URLs are those of the brokers, of which one leads.
"""

import json
import sys
import time
import uuid
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

STEP = 0.2
"""Seconds of work between two heartbeats."""
PAUSE = 0.3
MISDIRECTED, LOST, UNAVAILABLE = 421, 409, 503


class Lost(Exception):
    """The job belongs to another attempt now."""


class Brokers:
    """Those of one queue. A call goes to the one that answered last, and to the next one if that does not lead, or does not answer."""

    def __init__(self, urls: list[str]) -> None:
        self._urls = urls

    def post(self, path: str, **body: Any) -> Any:
        """Send a call until a broker answers it: the second copy of each call here gets the answer of the first."""
        while True:
            try:
                return self._post(path, body)
            except HTTPError as error:
                if error.code == LOST:
                    raise Lost from None
                if error.code not in (MISDIRECTED, UNAVAILABLE):
                    raise
            except OSError:
                pass  # no connection, or no answer in time
            self._urls.append(self._urls.pop(0))
            time.sleep(PAUSE)

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        request = Request(f"{self._urls[0]}/api/v1/jobs/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urlopen(request, timeout=15) as answer:
            return json.loads(answer.read() or b"null")


def main() -> None:
    """Claim one job after the other until killed."""
    name, *urls = sys.argv[1:]
    brokers = Brokers(urls)
    while True:
        # the same UUID in each copy of the call: a copy gets the same job
        claimed = brokers.post("claim", worker=name, tasks=["resize"], wait=5, claim=str(uuid.uuid4()))
        for job in claimed or []:
            try:
                run(brokers, name, job)
            except Lost:
                print(f"{name}: job {job['payload']['number']} is no longer mine", flush=True)


def run(brokers: Brokers, name: str, job: dict[str, Any]) -> None:
    """Run one job, with a heartbeat after each step."""
    number, steps = job["payload"]["number"], job["payload"]["steps"]
    print(f"{name}: job {number}, attempt {job['attempt']}", flush=True)
    for step in range(1, steps + 1):
        time.sleep(STEP)
        brokers.post(f"{job['id']}/heartbeat", token=job["token"], progress={"fraction": step / steps})
    if job["payload"]["fails"] and job["attempt"] == 1:
        error = {"type": "BadLuck", "message": "this job fails once"}
        brokers.post(f"{job['id']}/fail", token=job["token"], error=error, after=0.5)
        print(f"{name}: job {number} failed", flush=True)
    else:
        brokers.post(f"{job['id']}/complete", token=job["token"], result={"width": 800})
        print(f"{name}: job {number} completed", flush=True)


if __name__ == "__main__":
    main()
