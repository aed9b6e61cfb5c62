"""An App that crosses a fork: parent and child both continue, neither harms the other, and no acknowledged job is lost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

APP = """
import asyncio, json, logging, multiprocessing, os, signal, sys, threading, warnings
from holdfast import App, State

logging.getLogger("holdfast").setLevel("ERROR")
logging.getLogger("asyncio").setLevel("ERROR")  # in development mode it names every slow step

warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)
app = App("sqlite:///jobs.db", poll_interval="20ms", grace="10s")

@app.task
async def note(number: int) -> int:
    with open("ran.jsonl", "a") as file:
        file.write(json.dumps([number, os.getpid()]) + "\\n")
    return number

def in_child(work):
    child = os.fork()
    if child == 0:
        signal.alarm(40)
        try:
            work()
        except BaseException:
            import traceback; traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child

def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def waiting():
    return sum(app.jobs.counts().values())
"""


def program(folder: Path, code: str, *arguments: str, flags: tuple[str, ...] = ()) -> str:
    """Return what a program prints; it must end by itself, with exit code 0 and an empty stderr."""
    (folder / "shop.py").write_text(APP)
    (folder / "program.py").write_text("from shop import *\n" + code)
    done = subprocess.run(
        [sys.executable, *flags, "program.py", *arguments], cwd=folder, capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_a_parent_that_closes_first_takes_no_job_of_its_child_away(tmp_path: Path) -> None:
    output = program(
        tmp_path,
        """
note.enqueue(0)
ready, go = os.pipe(), os.pipe()

def work():
    note.enqueue(1)
    os.write(ready[1], b"x")
    os.read(go[0], 1)
    for number in range(5):
        note.enqueue(number)

child = in_child(work)
os.read(ready[0], 1)
app.close()
other = "from shop import *; waiting(); app.close()"
os.system(f"{sys.executable} -c '{other}'")
os.write(go[1], b"x")
print(ended(child), waiting())
""",
    )
    assert output.split() == ["0", "7"]


def test_children_forked_while_others_write_are_never_stuck(tmp_path: Path) -> None:
    output = program(
        tmp_path,
        """
over = threading.Event()
written = []

def write():
    while not over.is_set():
        written.extend(note.enqueue_many([{"number": 1}] * 20))

writers = [threading.Thread(target=write) for _ in range(2)]
for writer in writers:
    writer.start()
codes = []
def fork():
    for number in range(15):
        codes.append(ended(in_child(lambda: note.enqueue(number))))
forkers = [threading.Thread(target=fork) for _ in range(2)]
for forker in forkers:
    forker.start()
for forker in forkers:
    forker.join()
over.set()
for writer in writers:
    writer.join()
print(codes == [0] * 30, waiting() == len(written) + 30)
""",
    )
    assert output.split() == ["True", "True"]


def test_a_preloaded_app_is_used_by_parent_and_forked_servers(tmp_path: Path) -> None:
    output = program(
        tmp_path,
        """
note.enqueue(0)

def serve():
    for number in range(10):
        note.enqueue(number)
    async def in_a_loop():
        return await (await note.aenqueue(1)).aget()
    assert asyncio.run(in_a_loop()).state is State.AVAILABLE
    app.close()

servers = [in_child(serve) for _ in range(3)]
for number in range(10):
    note.enqueue(number)
print([ended(server) for server in servers], waiting())
""",
    )
    assert output == "[0, 0, 0] 44\n"


@pytest.mark.parametrize("method", ["fork", *(pytest.param(each, marks=pytest.mark.prove) for each in ("spawn", "forkserver"))])
def test_processes_of_multiprocessing_use_the_app(tmp_path: Path, method: str) -> None:
    output = program(
        tmp_path,
        """
def work(number):
    return note.enqueue(number).get().payload

if __name__ == "__main__":
    note.enqueue(0)
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        answers = pool.map(work, range(4))
    print(len(answers), waiting())
""",
        method,
    )
    assert output == "4 5\n"


def test_a_forked_child_of_an_embedded_worker_runs_no_job_and_ends_nobodys_lease(tmp_path: Path) -> None:
    output = program(
        tmp_path,
        """
class Turn:
    def __await__(self):
        yield

def forked_in_a_thread():
    return ended(in_child(lambda: note.enqueue(100)))

async def main():
    async with app.worker():
        child = os.fork()
        if child == 0:  # and goes on in the loop, as its parent does, until it leaves the worker's block
            for _ in range(500):
                await Turn()
        else:
            for number in range(20):
                await (await note.aenqueue(number)).aresult(timeout=30)
            code = ended(child)
            (lease,) = await app.workers.alist()
            assert await asyncio.to_thread(forked_in_a_thread) == 0
            handle = await note.aenqueue(20)
            assert await handle.aresult(timeout=30) == 20
            assert [each.id for each in await app.workers.alist()] == [lease.id]
    if child == 0:
        os._exit(7)
    print(code, lease.end, await app.workers.alist(), os.getpid())

asyncio.run(main())
""",
    )
    code, end, workers, pid = output.split()
    assert (code, end, workers) == ("7", "None", "[]")
    ran = [json.loads(line) for line in (tmp_path / "ran.jsonl").read_text().splitlines()]
    assert {process for _, process in ran} == {int(pid)}
    assert sorted(number for number, _ in ran) == [*range(21), 100]


ENDS = {
    "after an enqueue": "note.enqueue(1)",
    "after an enqueue in a loop": "asyncio.run(note.aenqueue(1))",
    "after it closed": "note.enqueue(1); app.close()",
    "with jobs run": "note.enqueue(1); assert app.run_due() == 1",
    "with a thread that waits for a result": """
handle, begun = note.enqueue(1), threading.Event()
def wait():
    begun.set()
    try:
        handle.result()
    except BaseException:
        pass  # what it waits for cannot come any more
threading.Thread(target=wait, daemon=True).start()
begun.wait()
""",
}


@pytest.mark.parametrize("end", list(ENDS))
def test_a_program_that_used_the_app_ends_at_once_and_without_a_word(tmp_path: Path, end: str) -> None:
    assert program(tmp_path, ENDS[end], flags=("-X", "dev", "-W", "error")) == ""


def test_a_worker_that_was_not_left_does_not_keep_a_program_from_its_end(tmp_path: Path) -> None:
    output = program(
        tmp_path,
        """
logging.disable()
async def main():
    await app.worker().__aenter__()
asyncio.run(main())
print("over")
""",
    )
    assert output == "over\n"
