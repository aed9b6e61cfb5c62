"""`--reload`: which changes count, and how one supervisor follows the other."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.cli.reload import Changes
from holdfast.cli.serve import WorkerCommand


class Acts:
    """A clock whose every sleep does the next thing, as an editor might in that time."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        self._acts = list(acts)

    async def sleep(self, seconds: float) -> None:
        assert self._acts, "nothing happens any more, and nobody has noticed a change"
        self._acts.pop(0)()

    monotonic = boottime = wall = lambda self: 0.0


def nothing() -> None:
    pass


def changed(folder: Path, *acts: Callable[[], object]) -> tuple[list[str], list[str]]:
    """Return the names of the files changed, and what was printed."""
    output: list[str] = []
    changes = Changes(folder, Acts(*acts), output.append)
    return [path.name for path in asyncio.run(changes.wait())], output


def test_a_changed_a_new_and_a_deleted_file_count(tmp_path: Path) -> None:
    old, new = tmp_path / "old.py", tmp_path / "new.py"
    old.write_text("x = 1")
    assert changed(tmp_path, nothing, lambda: old.write_text("x = 22"), nothing) == (["old.py"], [])
    assert changed(tmp_path, lambda: new.write_text(""), nothing) == (["new.py"], [])
    assert changed(tmp_path, old.unlink, nothing) == (["old.py"], [])


def test_other_files_and_other_peoples_code_do_not_count(tmp_path: Path) -> None:
    for name in (".git", "venv/lib", "node_modules", "__pycache__"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "code.py").write_text("")
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    mine = tmp_path / "mine.py"

    def touch_others() -> None:
        for path in tmp_path.rglob("code.py"):
            path.write_text("x = 1")
        (tmp_path / "jobs.db").write_text("x")

    assert changed(tmp_path, touch_others, lambda: mine.write_text(""), nothing)[0] == ["mine.py"]


def test_what_cannot_be_compiled_is_reported_and_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    names, output = changed(
        tmp_path, lambda: path.write_text("x = 1\nx ="), nothing, nothing, lambda: path.write_text("x = 1\nx = 2"), nothing
    )
    assert names == ["a.py"]
    assert len(output) == 1
    assert f"{path}:2: SyntaxError" in output[0]


class FakeSupervisor:
    """Ends with a code when drained, or at once."""

    slots = 1

    def __init__(self, code: int | None = None, problems: tuple[str, ...] = ()) -> None:
        self.code, self.problems, self.drains = code, problems, 0
        self._ended = asyncio.Event()

    def drain(self) -> None:
        self.drains += 1
        self._ended.set()

    async def run(self) -> int:
        if self.code is None:
            await self._ended.wait()
        return self.code or 0


class FakeChanges:
    """Changes when the test asks."""

    def __init__(self) -> None:
        self.happened: asyncio.Queue[list[Path]] = asyncio.Queue()

    async def wait(self) -> list[Path]:
        return await self.happened.get()


def kept(*supervisors: FakeSupervisor, then: Callable[[Any, FakeChanges], Any]) -> tuple[int, str]:
    async def live() -> tuple[int, str]:
        waiting, changes = iter(supervisors), FakeChanges()
        keeper = WorkerCommand(lambda: next(waiting), changes)  # type: ignore[arg-type, return-value]
        running = asyncio.create_task(keeper.run())
        await then(keeper, changes)
        return await running, keeper.reason

    return asyncio.run(live())


async def until(is_so: Callable[[], object]) -> None:
    while not is_so():
        turn = asyncio.Event()
        asyncio.get_running_loop().call_soon(turn.set)
        await turn.wait()


def test_a_change_drains_one_supervisor_and_starts_the_next() -> None:
    first, second = FakeSupervisor(), FakeSupervisor()

    async def then(keeper: Any, changes: FakeChanges) -> None:
        changes.happened.put_nowait([Path("a.py")])
        await until(lambda: keeper.supervisor is second)
        keeper.end(signal.SIGINT)

    assert kept(first, second, then=then) == (0, "SIGINT")
    assert (first.drains, second.drains) == (1, 1)


def test_code_that_is_refused_is_reported_and_the_next_change_tried(capsys: Any) -> None:
    broken, mended = FakeSupervisor(2, ("there is no module 'shop'",)), FakeSupervisor()

    async def then(keeper: Any, changes: FakeChanges) -> None:
        await until(lambda: "waiting for the next change" in capsys.readouterr().err)
        changes.happened.put_nowait([Path("a.py")])
        await until(lambda: keeper.supervisor is mended)
        keeper.end(signal.SIGTERM)

    assert kept(broken, mended, then=then) == (0, "SIGTERM")


def test_it_ends_while_it_waits_and_when_there_is_nothing_left(capsys: Any) -> None:
    async def stop(keeper: Any, changes: FakeChanges) -> None:
        await until(lambda: "waiting" in capsys.readouterr().err)
        keeper.end(signal.SIGINT)

    async def watch(keeper: Any, changes: FakeChanges) -> None:
        pass

    assert kept(FakeSupervisor(2), then=stop) == (0, "SIGINT")
    assert kept(FakeSupervisor(0), then=watch) == (0, "nothing left to do")
    assert kept(FakeSupervisor(75), then=watch) == (75, "store out of reach")
