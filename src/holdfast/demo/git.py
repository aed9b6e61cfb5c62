"""Git, asked safely: nothing of a repository is ever executed, prompted for, or taken for an option."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from holdfast.demo.errors import AnalysisError, BadRepository, explain_clone, last_line
from holdfast.demo.processes import Children

# What git would take from a hook or a shell around us, and which means another repository (git rev-parse --local-env-vars).
_FOREIGN = re.compile(
    "GIT_(ALTERNATE_OBJECT_DIRECTORIES|OBJECT_DIRECTORY|DIR|COMMON_DIR|WORK_TREE|INDEX_FILE|GRAFT_FILE|SHALLOW_FILE|PREFIX|NAMESPACE"
    "|REPLACE_REF_BASE|CONFIG|CONFIG_PARAMETERS|CONFIG_COUNT)"
)
_QUIET = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ASKPASS": "",  # set but empty: no askpass program opens a window either
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}
_OPTIONS = (
    "core.quotepath=off",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.bigFileThreshold=5m",  # git streams what is larger instead of holding it in memory
    "protocol.ext.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "http.lowSpeedLimit=1000",  # a server which sends nothing for a minute is gone
    "http.lowSpeedTime=60",
    "advice.detachedHead=false",
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/\\]+@[^/:]+:")
_PERCENT = re.compile(rb"(Receiving objects|Resolving deltas):\s+(\d+)%")


class GitFailed(Exception):
    """A git command refused; the message is its last words.

    >>> str(GitFailed("fatal: bad object"))
    'fatal: bad object'
    """


class GitKilled(Exception):
    """Somebody else ended git, out of memory perhaps: the repository is not to blame, so the job may try again.

    >>> str(GitKilled("git was ended by signal 9"))
    'git was ended by signal 9'
    """


def failure_of(code: int, words: str) -> GitFailed | GitKilled:
    """What an exit code means.

    >>> failure_of(-9, "")
    GitKilled('git was ended by signal 9')
    """
    return GitKilled(f"git was ended by signal {-code}") if code < 0 else GitFailed(last_line(words))


def git_environment() -> dict[str, str]:
    """The environment of every git child: no prompts, English, no foreign repository, known transports only.

    >>> git_environment()["GIT_TERMINAL_PROMPT"]
    '0'
    """
    inherited = {name: value for name, value in os.environ.items() if not _FOREIGN.fullmatch(name)}
    return {"GIT_SSH_COMMAND": "ssh -oBatchMode=yes", **inherited, **_QUIET}


def git_command(*arguments: str) -> list[str]:
    """A git command line with the settings which keep it safe and its output stable.

    >>> git_command("version")[-1]
    'version'
    """
    return ["git", *(word for option in _OPTIONS for word in ("-c", option)), *arguments]


def locate(repository: str) -> str:
    """What `git clone` gets: a URL as it is, or the absolute path of the repository a path lies in.

    Raises BadRepository for what looks like an option, is empty, or has no repository.

    >>> locate("https://example.org/x.git")
    'https://example.org/x.git'
    """
    if not repository.strip() or "\0" in repository or repository.startswith("-"):
        raise BadRepository(
            f"{repository!r} is no path or URL of a repository", remedy="pass a path or URL, like /home/me/project"
        )
    path = Path(repository).expanduser()
    if _URL.match(repository) and not path.exists():
        return repository
    if not path.exists():
        raise BadRepository(f"there is nothing at {repository}", remedy="check the path; it is read on the worker's machine")
    path = path.resolve()
    if path.is_file() or (path / "HEAD").is_file():
        return str(path)  # a bundle, or a bare repository
    for folder in (path, *path.parents):
        if (folder / ".git").exists():
            return str(folder)
    raise BadRepository(f"there is no git repository at {repository}", remedy="pass the folder which holds .git, or a URL")


def without_secrets(repository: str) -> str:
    """A repository's address fit for results and messages: user names and tokens of URLs are left out.

    >>> without_secrets("https://me:token@example.org/x.git")
    'https://example.org/x.git'
    """
    return re.sub(r"^([A-Za-z][A-Za-z0-9+.-]*://)[^/@]*@", r"\1", repository)


def repository_name(repository: str) -> str:
    """A short name for titles and folders, of letters, digits, `.`, `_` and `-` only.

    >>> repository_name("git@example.org:team/tool.git"), repository_name("/tmp/my project/")
    ('tool', 'my-project')
    """
    text = repository if _URL.match(repository) else os.path.abspath(os.path.expanduser(repository))
    last = re.split(r"[/\\:]", text.rstrip("/").removesuffix("/.git"))[-1].removesuffix(".git").removesuffix(".bundle")
    return re.sub(r"[^\w.-]+", "-", last, flags=re.ASCII).strip(".-") or "repository"


class Git:
    """One bare clone, asked through child processes which belong to the analysis.

    >>> Git(Path("/tmp/clone"), Children()).directory.name
    'clone'
    """

    def __init__(self, directory: Path, children: Children) -> None:
        self.directory = directory
        self.children = children

    def ask(self, *arguments: str) -> str:
        """The short answer of one command, stripped; raises GitFailed or GitKilled, as everything here does."""
        with self.stream(*arguments) as output:
            return output.read().decode("ascii", "replace").strip()

    @contextmanager
    def stream(self, *arguments: str, lines: Sequence[str] = ()) -> Iterator[IO[bytes]]:
        """A command's output while it runs, fed with `lines`; raises GitFailed at its end when git failed.

        The lines go through a file, because a pipe would block both sides once it is full.
        """
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
            stdin.writelines(line.encode() + b"\n" for line in lines)
            stdin.seek(0)
            process = self._start(arguments, stdin=stdin, stderr=stderr)
            assert process.stdout is not None
            try:
                yield process.stdout
            except BaseException:
                self.children.end(process)
                raise
            process.stdout.close()
            if (code := self.children.wait(process)) != 0:
                stderr.seek(0)
                raise failure_of(code, stderr.read(65536).decode("utf-8", "replace"))

    def converse(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A long-lived command with pipes at both ends; whoever starts it ends it with `children.end`."""
        return self._start(arguments, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def _start(self, arguments: Sequence[str], *, stdin: int | IO[bytes], stderr: int | IO[bytes]) -> subprocess.Popen[bytes]:
        command = git_command(f"--git-dir={self.directory}", *arguments)
        return self.children.start(command, environment=git_environment(), stdin=stdin, stdout=subprocess.PIPE, stderr=stderr)


def clone(children: Children, repository: str, target: Path) -> Iterator[float]:
    """Clones the branch HEAD points to, bare, without hooks or templates; yields the fraction done, in 0–1.

    The target appears only when the clone is complete, so that whoever finds it may use it.
    Raises AnalysisError; nothing of the repository is checked out or run.
    """
    source = locate(repository)
    partial = target.with_name(target.name + ".part")
    options = ["--bare", "--single-branch", "--no-tags", "--template=", "--progress"]
    process = children.start(
        git_command("clone", *options, "--", source, str(partial)), environment=git_environment(), stderr=subprocess.PIPE
    )
    complaint = b""
    assert process.stderr is not None
    try:
        while chunk := os.read(process.stderr.fileno(), 65536):
            complaint = (complaint + chunk)[-8192:]
            if found := _PERCENT.findall(complaint):
                phase, percent = found[-1]
                yield 0.8 * int(percent) / 100 if phase == b"Receiving objects" else 0.8 + 0.2 * int(percent) / 100
    except BaseException:
        children.end(process)
        raise
    if (code := children.wait(process)) < 0:
        raise failure_of(code, "")
    if code > 0:
        shown = without_secrets(repository)
        raise explain_clone(shown, complaint.decode("utf-8", "replace").replace(repository, shown))
    partial.rename(target)


def tip_of(git: Git, repository: str) -> str:
    """The commit HEAD points to; raises BadRepository for a repository without commits."""
    try:
        return git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    except GitFailed:
        problem = f"{without_secrets(repository)} has no commits on its HEAD"
        raise BadRepository(problem, remedy="commit something, or point HEAD to a branch with commits") from None


def damaged(repository: str, reason: object) -> AnalysisError:
    """What to say when git cannot read its own history."""
    problem = f"the history of {without_secrets(repository)} cannot be read ({reason})"
    return BadRepository(problem, remedy="run `git fsck` there; a partial clone must be refetched")
