"""An analysis step by step: clone → walk → count → report, resumed at the last checkpoint when a worker dies.

What a killed analysis leaves lies in its work directory, named after the job: the clone, the walked commits, the rows counted so far.
The checkpoint records which of that is valid. Every attempt writes separate files, so that a worker which was frozen, lost the job and
wakes up disturbs no other; it copies from its predecessor only what the checkpoint covers.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from analyzer.bookmark import VERSION, Bookmark
from analyzer.cache import CloneCache, Step, cache_root
from analyzer.clones import clone
from analyzer.count import BlobCounter, Tally, count_commits
from analyzer.errors import AnalysisError, BadRepository, ChartFailed, Unreachable, last_line
from analyzer.git import Git, GitFailed, damaged, is_url, locate, repository_name, tip_of, without_secrets
from analyzer.history import Commit, CommitFile, Walk, walk
from analyzer.journal import Journal, Row, last_row, rows_of
from analyzer.processes import Children, Workshop
from analyzer.report import COUNTERS, languages_of, write_csv, write_json
from analyzer.workplace import KINDS, folder_of, forget, prepare
from holdfast.errors import MissingExtra

Sleep = Callable[[float], Awaitable[None]]
_LARGEST_BATCH = 10_000  # a batch is held in memory
_LONGEST_PACE = 240.0  # seconds; the task promises progress within five minutes
_NO_ROOM = "check the disk and the rights of `out` and `work`; the next attempt goes on at the last checkpoint"
# Where each stage lies in the fraction of the whole, which only ever grows.
_SPANS = {"clone": (0.0, 0.1), "walk": (0.1, 0.15), "count": (0.15, 0.95), "report": (0.95, 1.0)}


class Reporter(Protocol):
    """What an analysis needs of its job: so little that a test writes it in ten lines; `holdfast.Job` has it all."""

    @property
    def id(self) -> object: ...
    @property
    def attempt(self) -> int: ...
    @property
    def checkpoint_value(self) -> object: ...
    async def progress(self, *, stage: str, fraction: float, message: str) -> object: ...
    async def checkpoint(self, value: object, /) -> object: ...


@dataclass(frozen=True, slots=True)
class Request:
    """What to analyze: `batch` commits lie between two checkpoints, each followed by a wait of `pace` seconds.

    Raises BadRepository for values that cannot work.

    >>> Request("/home/me/project", out="evolution", max_commits=300).batch
    50
    """

    repository: str
    out: str
    max_commits: int | None = None
    batch: int = 50
    pace: float = 0.0
    work: str | None = None

    def __post_init__(self) -> None:
        is_sample = self.max_commits is None or self.max_commits >= 1
        if not 1 <= self.batch <= _LARGEST_BATCH or not is_sample or not 0 <= self.pace <= _LONGEST_PACE:
            numbers = f"batch is 1 to {_LARGEST_BATCH:,}, max_commits is 1 or more, pace is 0 to {_LONGEST_PACE:g} seconds"
            raise BadRepository("impossible numbers", remedy=numbers)
        folder_of(self.out, "out")
        folder_of(self.work or self.out, "work")

    def folder(self, job: object) -> Path:
        """Return the job's work directory: the same in every attempt, another for every job."""
        parent = folder_of(self.work, "work") if self.work else folder_of(self.out, "out") / ".work"
        return parent / re.sub(r"[^\w-]", "-", str(job))

    def file(self, kind: str) -> Path:
        """Return where a result goes."""
        return folder_of(self.out, "out") / f"evolution.{kind}"


async def analyze_repository(job: Reporter, request: Request, *, sleep: Sleep) -> dict[str, object]:
    """Analyze how the code of a repository evolved; the result names the files written. Resumes from the job's checkpoint.

    Raises AnalysisError, MissingExtra or ChartFailed.
    """
    if not find_spec("matplotlib"):
        raise MissingExtra("matplotlib", "demo")
    if not shutil.which("git"):
        raise BadRepository("git is not installed on this worker", remedy="install git")
    if (finished := _finished(job.checkpoint_value)) is not None:
        return finished
    folder = request.folder(job.id)
    with ExitStack() as open_files:
        async with Workshop() as workshop:
            try:
                result = await _Analysis(job, request, workshop, folder, open_files).run(sleep)
            except (AnalysisError, GitFailed) as refusal:
                await workshop.run(forget, workshop.children, folder)
                if isinstance(refusal, AnalysisError):
                    raise
                await workshop.run(_discard, request, folder, workshop.children)
                raise damaged(request.repository, refusal) from None
            except OSError as error:  # a full disk, most of all; what is counted stays for the next attempt
                raise Unreachable(f"this worker cannot go on ({error})", remedy=_NO_ROOM) from None
            await job.checkpoint({"version": VERSION, "done": result})
            await workshop.run(forget, workshop.children, folder)
    return result


def _finished(checkpoint: object) -> dict[str, object] | None:
    """Return the result of an earlier attempt which wrote everything, but died before it could report that."""
    done = checkpoint.get("done") if isinstance(checkpoint, dict) and checkpoint.get("version") == VERSION else None
    files = done.get("files") if isinstance(done, dict) else None
    is_there = isinstance(files, dict) and all(Path(str(path)).is_file() for path in files.values())
    return done if isinstance(done, dict) and is_there else None


def _discard(request: Request, folder: Path, children: Children) -> None:
    """Remove the clone and its copy in the cache: one of them is damaged, and the next attempt must not find it."""
    if is_url(locate(request.repository)):
        CloneCache(cache_root(folder.parent), children).discard(request.repository)


class _Analysis:
    def __init__(self, job: Reporter, request: Request, workshop: Workshop, folder: Path, open_files: ExitStack) -> None:
        self._job = job
        self._request = request
        self._workshop = workshop
        self._folder = folder
        self._open_files = open_files

    async def run(self, sleep: Sleep) -> dict[str, object]:
        mark = await self._resumed() or await self._started()
        mark = await self._count(mark, sleep)
        return await self._report(mark)

    async def _say(self, stage: str, part: float, message: str) -> float:
        low, high = _SPANS[stage]
        fraction = round(low + (high - low) * part, 4)
        await self._job.progress(stage=stage, fraction=fraction, message=message)
        return fraction

    # ── resume ──

    async def _resumed(self) -> Bookmark | None:
        mark = Bookmark.from_json(self._job.checkpoint_value)
        if mark is None or not await self._workshop.run(self._is_intact, mark):
            return None
        await self._say("count", mark.next / mark.sampled, f"resumed at commit {mark.next:,} of {mark.sampled:,}")
        return mark

    def _is_intact(self, mark: Bookmark) -> bool:
        """Return whether what the checkpoint covers is still there; on another machine, or after a clean-up, it is not."""
        try:
            self._git(mark).ask("cat-file", "-e", mark.tip)
            commits = CommitFile(self._folder / mark.commit_file)
            if commits.count != mark.sampled or mark.next > mark.sampled:
                return False
            row = last_row(self._folder / mark.rows, mark.length, mark.next) if mark.next else {}
            return row is not None and (mark.next == 0 or row.get("commit") == commits.read(mark.next - 1, mark.next)[0].id)
        except (OSError, GitFailed):
            return False

    def _git(self, mark: Bookmark) -> Git:
        return Git(self._folder / mark.clone, self._workshop.children)

    # ── clone and walk ──

    async def _started(self) -> Bookmark:
        attempt, name = self._job.attempt, repository_name(self._request.repository)
        await self._say("clone", 0.0, f"cloning {name}")
        await self._workshop.run(self._prepare)
        git = Git(self._folder / f"clone-{attempt}", self._workshop.children)
        cloning, part = self._cloning(git.directory), 0.0
        while (step := await self._workshop.next(cloning)) is not None:
            part = max(part, step.part)
            await self._say("clone", part, step.text)
        tip = await self._workshop.run(tip_of, git, self._request.repository)
        await self._say("walk", 0.0, f"walking the history of {name}")
        found = await self._walk(git, tip, self._folder / f"commits-{attempt}")
        fraction = await self._say("walk", 1.0, f"found {found.commits:,} commits")
        mark = Bookmark(
            tip,
            git.directory.name,
            f"commits-{attempt}",
            f"rows-{attempt}",
            commits=found.commits,
            sampled=found.sampled,
            shallow=(git.directory / "shallow").exists(),
            fraction=fraction,
        )
        await self._job.checkpoint(mark.to_json())
        return mark

    def _prepare(self) -> None:
        locate(self._request.repository)  # a wrong address is refused before anything is written
        prepare(self._workshop.children, self._folder, self._request.file("json").parent)

    def _cloning(self, target: Path) -> Iterator[Step]:
        """Clone URLs through the cache; a path's clone is made of links and would gain nothing."""
        children, repository = self._workshop.children, self._request.repository
        if is_url(locate(repository)):
            yield from CloneCache(cache_root(self._folder.parent), children).clone(repository, target, self._open_files)
        else:
            name = repository_name(repository)
            yield from (Step(part, f"cloning {name}: {part:.0%}") for part in clone(children, repository, target))

    async def _walk(self, git: Git, tip: str, target: Path) -> Walk:
        walking = walk(git, tip, self._request.max_commits, target)
        found = Walk(0, 0)
        while (more := await self._workshop.next(walking)) is not None:
            found = more
            await self._say("walk", 0.5, f"walked {found.sampled:,} of {found.commits:,} commits")
        return found

    # ── count ──

    async def _count(self, mark: Bookmark, sleep: Sleep) -> Bookmark:
        run, git = self._workshop.run, self._git(mark)
        blobs = await run(BlobCounter, git)
        journal = await run(self._open_journal, mark)
        commits = await run(CommitFile, self._folder / mark.commit_file)
        tally, base = await run(self._position, mark, git, commits)
        while mark.next < mark.sampled:
            batch = await run(commits.read, mark.next, mark.next + self._request.batch)
            counting = _rows_of_batch(count_commits(git, blobs, tally, base, batch), tally, journal)
            done, fraction = 0, mark.fraction
            while (more := await self._workshop.next(counting)) is not None:
                done = mark.next + more
                message = f"commit {done:,} of {mark.sampled:,} · {sum(tally.languages.values()):,} lines"
                fraction = await self._say("count", done / mark.sampled, message)
            length = await run(journal.commit)
            mark = replace(mark, rows=journal.path.name, next=done, length=length, fraction=fraction)
            await self._job.checkpoint(mark.to_json())
            base = batch[-1].tree
            if self._request.pace:
                await sleep(self._request.pace)
        return mark

    def _open_journal(self, mark: Bookmark) -> Journal:
        """Open a journal, and keep it from the step that opens it: a caller that is cancelled at this moment would never receive it."""
        path = self._folder / f"rows-{self._job.attempt}"
        if mark.next == 0:
            journal = Journal.begin(path)
        else:
            journal = Journal.resume(self._folder / mark.rows, mark.length, path, check=self._workshop.children.raise_if_ended)
        return self._open_files.enter_context(journal)

    def _position(self, mark: Bookmark, git: Git, commits: CommitFile) -> tuple[Tally, str]:
        """Return the totals so far and the tree they belong to: those of the last valid row, or nothing and the empty tree."""
        if mark.next == 0:
            return Tally(), git.ask("hash-object", "-t", "tree", "/dev/null")
        row = last_row(self._folder / mark.rows, mark.length, mark.next) or {}
        counters = {name: int(str(row[name])) for name in COUNTERS}
        return Tally(languages_of(row), **counters), commits.read(mark.next - 1, mark.next)[0].tree

    # ── report ──

    async def _report(self, mark: Bookmark) -> dict[str, object]:
        await self._say("report", 0.0, "writing JSON and CSV")
        result = await self._workshop.run(self._write, mark)
        await self._say("report", 0.3, "drawing the chart")
        await self._workshop.run(self._draw)
        lines = result["lines"]
        await self._say("report", 1.0, f"{mark.sampled:,} commits, {lines:,} lines")
        return result

    def _write(self, mark: Bookmark) -> dict[str, object]:
        rows_path = self._folder / mark.rows

        def rows() -> Iterator[Row]:
            for row in rows_of(rows_path, mark.length):
                self._workshop.children.raise_if_ended()
                yield row

        tip = last_row(rows_path, mark.length, mark.sampled) or {}
        languages = dict(sorted(languages_of(tip).items(), key=lambda item: (-item[1], item[0])))
        head: dict[str, object] = {
            "repo": without_secrets(self._request.repository),
            "name": repository_name(self._request.repository),
            "commits": mark.commits,
            "sampled": mark.sampled,
            "shallow": mark.shallow,
            "tip": mark.tip,
            "lines": sum(languages.values()),
            "languages": languages,
        }
        write_json({"format": 1, **head}, rows, self._request.file("json"))
        write_csv(rows, self._request.file("csv"))
        return {**head, "files": {kind: str(self._request.file(kind)) for kind in KINDS}}

    def _draw(self) -> None:
        """Draw in a child process: matplotlib takes 100 MB which a worker would never release."""
        source, svg, png = (str(self._request.file(kind)) for kind in ("json", "svg", "png"))
        command = [sys.executable, "-m", "analyzer.chart", source, "--svg", svg, "--png", png]
        _run_child(self._workshop, command)


def _run_child(workshop: Workshop, command: Sequence[str]) -> None:
    package_root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryFile() as stderr:
        process = workshop.children.start(
            command, environment={**os.environ, "PYTHONPATH": path}, stdout=subprocess.DEVNULL, stderr=stderr
        )
        try:
            code = workshop.children.wait(process)
        finally:  # killed, it could not remove its drafts
            for target in (Path(word) for word in command if word.startswith("/")):
                target.with_name(f".{target.name}.{process.pid}.part").unlink(missing_ok=True)
        if code != 0:
            stderr.seek(0)
            raise ChartFailed(f"drawing failed with exit code {code}: {last_line(stderr.read().decode('utf-8', 'replace'))}")


def _rows_of_batch(counting: Iterator[Commit | None], tally: Tally, journal: Journal) -> Iterator[int]:
    """Write a row for every commit counted; yield how many of the batch are done, also between slices of a big one."""
    done = 0
    for commit in counting:
        if commit is not None:
            counters = {name: getattr(tally, name) for name in COUNTERS}
            journal.append(
                {
                    "commit": commit.id,
                    "date": commit.date,
                    "mainline": commit.is_mainline,
                    "languages": tally.languages,
                    **counters,
                }
            )
            done += 1
        yield done
