"""Git, asked safely: nothing of a repository is ever executed, prompted for, or taken for an option."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from analyzer.errors import AnalysisError, BadRepository, Unreachable, last_line
from analyzer.processes import Channel, Children

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
    "clone.defaultRemoteName=origin",
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/\\]+@[^/:]+:")


class GitFailed(Exception):
    """A git command refused; the message is the end of its output.

    >>> str(GitFailed("fatal: bad object"))
    'fatal: bad object'
    """


class GitKilled(Exception):
    """Another process ended git, for example because memory ran out: the repository is not to blame, so the job may try again.

    >>> str(GitKilled("git was ended by signal 9"))
    'git was ended by signal 9'
    """


def failure_of(code: int, words: str) -> GitFailed | GitKilled:
    """Interpret an exit code.

    >>> failure_of(-9, "")
    GitKilled('git was ended by signal 9')
    """
    return GitKilled(f"git was ended by signal {-code}") if code < 0 else GitFailed(last_line(words))


def git_environment(*, is_offline: bool = False) -> dict[str, str]:
    """Return the environment of every git child: no prompts, English, no foreign repository, known transports only.

    Offline: none at all. A question never needs one, and a repository's own settings may name a program to fetch what it lacks.

    >>> git_environment()["GIT_TERMINAL_PROMPT"], git_environment(is_offline=True)["GIT_ALLOW_PROTOCOL"]
    ('0', '')
    """
    inherited = {name: value for name, value in os.environ.items() if not _FOREIGN.fullmatch(name)}
    protocols = {"GIT_ALLOW_PROTOCOL": ""} if is_offline else {}
    return {"GIT_SSH_COMMAND": "ssh -oBatchMode=yes", **inherited, **_QUIET, **protocols}


def git_command(*arguments: str) -> list[str]:
    """Return a git command line with the settings which keep it safe and its output stable.

    >>> git_command("version")[-1]
    'version'
    """
    return ["git", *(word for option in _OPTIONS for word in ("-c", option)), *arguments]


def locate(repository: str) -> str:
    """Return what `git clone` gets: a URL as it is, or the absolute path of the repository a path lies in.

    Raises BadRepository for what looks like an option, is empty, or has no repository.

    >>> locate("https://example.org/x.git")
    'https://example.org/x.git'
    """
    if not repository.strip() or "\0" in repository or repository.startswith("-") or not is_text(repository):
        raise BadRepository(
            f"{repository!r} is not a path or URL of a repository", remedy="pass a path or URL, like /home/me/project"
        )
    try:
        return _located(repository)
    except PermissionError:
        raise BadRepository(f"no rights to read {repository}", remedy="give the worker's user read access") from None
    except (OSError, RuntimeError) as error:  # too long a name, an unknown home directory, links in a circle
        raise BadRepository(f"{repository[:300]} is not a usable path ({_reason(error)})", remedy="check the path") from None


def _located(repository: str) -> str:
    path = Path(repository).expanduser()
    if is_url(repository) and not path.exists():
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


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def is_url(repository: str) -> bool:
    """Return whether it has the form of a URL, or of ssh's short one. (A path may have it too.)

    >>> is_url("git@example.org:team/tool.git"), is_url("/home/me/tool")
    (True, False)
    """
    return _URL.match(repository) is not None


def is_text(name: str) -> bool:
    """Return whether it can be written as UTF-8: a name with other bytes (surrogates) fits in no result and no message.

    >>> is_text("ü"), is_text("caf\\udce9")
    (True, False)
    """
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def without_secrets(repository: str) -> str:
    """Make a repository's address fit for results and messages: user names and tokens of URLs are left out.

    >>> without_secrets("https://me:token@example.org/x.git")
    'https://example.org/x.git'
    """
    return re.sub(r"^([A-Za-z][A-Za-z0-9+.-]*://)[^/@]*@", r"\1", repository)


def repository_name(repository: str) -> str:
    """Make a short name for titles and folders, of letters, digits, `.`, `_` and `-` only.

    >>> repository_name("git@example.org:team/tool.git"), repository_name("/tmp/my project/")
    ('tool', 'my-project')
    """
    text = repository if is_url(repository) else os.path.abspath(os.path.expanduser(repository))
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
        """Return the short answer of one command, stripped; raises GitFailed or GitKilled, as everything here does."""
        with self.stream(*arguments) as output:
            return output.read().decode("ascii", "replace").strip()

    @contextmanager
    def stream(self, *arguments: str, lines: Sequence[str] = (), memory: int | None = None) -> Iterator[IO[bytes]]:
        """Yield a command's output while it runs, fed with `lines`; raises GitFailed at its end when git failed.

        `memory`: the most bytes git may allocate.

        The lines go through a file, because a pipe would block both sides once it is full.
        """
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
            stdin.writelines(line.encode() + b"\n" for line in lines)
            stdin.seek(0)
            process = self._start(arguments, stdin=stdin, stderr=stderr, memory=memory)
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
        """Start a long-lived command with pipes at both ends; the caller ends it with `children.end`."""
        return self._start(arguments, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def _start(
        self, arguments: Sequence[str], *, stdin: Channel, stderr: Channel, memory: int | None = None
    ) -> subprocess.Popen[bytes]:
        command = git_command(f"--git-dir={self.directory}", *arguments)
        environment = git_environment(is_offline=True)
        return self.children.start(
            command, environment=environment, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, memory=memory
        )


def tip_of(git: Git, repository: str) -> str:
    """Return the commit HEAD points to; raises BadRepository for a repository without commits."""
    try:
        return git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    except GitFailed:
        problem = f"{without_secrets(repository)} has no commits on its HEAD, or none that git can read"
        remedy = "commit something, point HEAD to a branch with commits, or ask `git fsck` there"
        raise BadRepository(problem, remedy=remedy) from None


def damaged(repository: str, reason: object) -> AnalysisError:
    """Make the error for a git that cannot read its history."""
    why = re.sub(r" \(stored in [^)]*\)", "", str(reason))  # a path in the work clone, which is gone when the message is read
    shown = without_secrets(repository)
    if is_url(locate(repository)):  # git checks what it receives, so the damage came later
        return Unreachable(f"our clone of {shown} is damaged ({why}) and thrown away", remedy="try again")
    problem = f"the history of {shown} cannot be read ({why})"
    return BadRepository(problem, remedy="run `git fsck` there; a partial clone must be refetched")
