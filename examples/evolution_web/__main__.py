"""``python -m evolution_web``: the web server and a supervisor of two workers; one that dies is started again, as systemd would."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from evolution_web.jobs import HOME, app
from holdfast.demo.sample import generate

PORT = os.environ.get("EVOLUTION_PORT", "8420")
COMMANDS = (
    f"uvicorn evolution_web.web:web --port {PORT} --log-level warning --timeout-graceful-shutdown 1",
    "holdfast.cli worker evolution_web.jobs:app --processes 2 --grace 1s",
)


def start(command: str) -> subprocess.Popen[bytes]:
    """Start one of them in a process group, so that Ctrl-C reaches it through `main` only."""
    return subprocess.Popen([sys.executable, "-m", *command.split()], stdin=subprocess.DEVNULL, process_group=0)


def main() -> None:
    """Run both until Ctrl-C or SIGTERM, and end both by their process ids."""
    samples = Path(os.environ.setdefault("EVOLUTION_FILES", str(HOME / "samples")))
    HOME.mkdir(parents=True, exist_ok=True)
    if not (samples / "sample.git").exists():
        generate(samples / "sample.git", 400)
    app.migrate()
    app.close()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    running = [*map(start, COMMANDS)]
    print(f"http://127.0.0.1:{PORT} – web server {running[0].pid}, supervisor {running[1].pid}; Ctrl-C ends both", flush=True)
    try:
        while True:
            pid, _ = os.wait()
            time.sleep(0.3)  # one that cannot start, as on a port that is taken, is not tried again at once
            running = [start(COMMANDS[at]) if each.pid == pid else each for at, each in enumerate(running)]
    except KeyboardInterrupt:
        for process in running[::-1]:
            process.terminate()
            process.wait()


main()
