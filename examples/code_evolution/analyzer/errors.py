"""What an analysis refuses, each with its remedy.

AnalysisError(ValueError)
├── BadRepository      not there, empty, no rights, wrong argument: trying again does not help
└── Unreachable        the network or the server: trying again may help
ChartFailed(RuntimeError)   the child process which draws died
"""


class AnalysisError(ValueError):
    """A repository cannot be analyzed; `remedy` names what to do, so that the message is enough.

    >>> AnalysisError("there are no commits", remedy="commit something first").remedy
    'commit something first'
    """

    def __init__(self, problem: str, *, remedy: str) -> None:
        super().__init__(f"{problem} – {remedy}")
        self.problem = problem
        self.remedy = remedy


class BadRepository(AnalysisError):
    """The request itself is wrong, so a retry would only repeat the refusal.

    >>> issubclass(BadRepository, ValueError)
    True
    """


class Unreachable(AnalysisError):
    """The server did not answer, which may pass, so a retry is worth it.

    >>> issubclass(Unreachable, BadRepository)
    False
    """


class ChartFailed(RuntimeError):
    """The child process which draws the chart failed; the counted results are already written.

    >>> str(ChartFailed("exit code 1"))
    'exit code 1'
    """


_NO_RIGHTS = (
    "permission denied",
    "authentication failed",
    "could not read username",
    "could not read password",
    "terminal prompts disabled",
    "returned error: 401",
    "returned error: 403",
    "host key verification failed",
    "access denied",
)
_DAMAGED = ("possible repository corruption", "not our ref", "is corrupt", "did not send all necessary objects")
_NO_URL = (
    "bad/illegal format",
    "no path specified",
    "strange hostname",
    "strange pathname",
    "strange port",
    "contains a newline",
)
_NOT_THERE = (
    "does not appear to be a git repository",
    "does not exist",
    "not found",
    "invalid gitfile format",
    "not recognized as a git repository",
    "returned error: 404",
    "not a git repository",
)


def explain_clone(shown: str, complaint: str) -> AnalysisError:
    """Turn git's complaint about a clone into what went wrong and what to do, because its last line by itself misleads.

    The order matters: ssh prints "Could not read from remote repository" after every failure, the cause stands before it.

    >>> explain_clone("https://x/y", "fatal: unable to access 'https://x/y/': Could not resolve host: x").remedy
    'check the address and the network, then try again'
    """
    text = complaint.lower()
    if "dubious ownership" in text:
        return BadRepository(
            f"{shown} belongs to another user", remedy="trust it: git config --global --add safe.directory <path>"
        )
    if any(sign in text for sign in _NO_RIGHTS):
        return BadRepository(
            f"no rights to read {shown}", remedy="give the worker a credential helper, an ssh key, or read access"
        )
    if "transport" in text and "not allowed" in text:
        return BadRepository(f"{shown} uses a transport which is not allowed", remedy="use a path, https, ssh, git or file")
    if any(sign in text for sign in _NOT_THERE):
        return BadRepository(f"there is no git repository at {shown}", remedy="check the path or URL")
    if "no space left" in text:
        return Unreachable(f"the disk is full while cloning {shown}", remedy="free some space, or pass `work` on another disk")
    if any(sign in text for sign in _DAMAGED):
        return BadRepository(f"{shown} is damaged ({last_line(complaint)})", remedy="run `git fsck` where it lies")
    why = last_line(complaint)
    if any(sign in text for sign in _NO_URL):
        return BadRepository(f"{shown} is no address git understands ({why})", remedy="check the URL")
    if "://" in shown or "@" in shown:
        return Unreachable(f"{shown} cannot be reached ({why})", remedy="check the address and the network, then try again")
    return BadRepository(f"{shown} cannot be cloned ({why})", remedy="run `git fsck` there")


# What ssh and git print after every failure; the cause stands before it.
_CHORUS = ("fatal: could not read from remote repository", "please make sure you have the correct", "and the repository exists.")


def last_line(complaint: str) -> str:
    """Return the last line of git's complaint that has content, at most 300 characters.

    >>> last_line("ssh: no route to host\\nfatal: Could not read from remote repository.\\n")
    'ssh: no route to host'
    """
    lines = [line.strip() for line in complaint.replace("\r", "\n").splitlines() if line.strip()]
    telling = [line for line in lines if not line.lower().startswith(_CHORUS)] or lines
    return telling[-1][:300] if telling else "no reason given"
