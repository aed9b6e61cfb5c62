"""A supervisor process for tests that kill or freeze supervisors: one worker, whose settings stand in the arguments.

Arguments: whether code runs (0 or 1), then seconds until the guard's deadline (or "none"), then what the worker
starts (or nothing). Prints the pids: worker, then the started processes.
"""

import asyncio
import json
import sys
import time

from tests.e2e.scripted_workers import ask, scripted_host


async def main(is_running: bool, seconds: str, start: list[str]) -> None:
    child = await scripted_host().spawn(())
    await ask(child, "flag", is_running)
    pids = [child.process.pid, *[await ask(child, "start", what) for what in start]]
    if seconds != "none":
        child.set_deadline(time.monotonic() + float(seconds))
    await ask(child, "linger")
    print(json.dumps(pids), flush=True)
    await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] == "1", sys.argv[2], sys.argv[3:]))
