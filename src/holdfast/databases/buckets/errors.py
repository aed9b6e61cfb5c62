"""What a driver's error means, in Holdfast's words.

The driver's text is read for the status and the code only. It quotes the server's answer and the request, in which credentials and
payloads may stand.
"""

import re

from holdfast._core.bucket_url import BucketUrl
from holdfast._ports.bucket import BucketProblem, BucketUnavailable

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,40})</Code>")
_CONDITION = (409, 412)
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|specified bucket does not exist")
_REGION = re.compile(r"AuthorizationHeaderMalformed|PermanentRedirect|redirect without LOCATION|IllegalLocationConstraint")
_NO_CREDENTIALS = re.compile(r"169\.254\.169\.254|169\.254\.170\.2|metadata\.google\.internal|metadata/identity/oauth2")
_UNREACHABLE = re.compile(r"kind: (Connect|Timeout)\b|TimedOut")


def unavailable(error: BaseException, url: BucketUrl, call: str) -> BucketUnavailable:
    """Return the port's error for an exception of the driver. ``call``: what was asked, such as ``PUT head.json``."""
    text = str(error)
    found = _STATUS.search(text)
    problem = _problem(text, int(found[1]) if found else None)
    code = _CODE.search(text)
    answer = " ".join(filter(None, (found and found[1], code and code[1])))
    return BucketUnavailable(f"{url.public}: {call}: {_message(problem, url, answer)}", problem)


def is_missing_bucket(error: BaseException) -> bool:
    """Return whether a "not found" means the bucket: taken for a missing object, it would make an empty queue of a lost one."""
    return bool(_NO_BUCKET.search(str(error)))


def _problem(text: str, status: int | None) -> BucketProblem:
    if _NO_CREDENTIALS.search(text) or status in (401, 403):
        return BucketProblem.DENIED
    if _NO_BUCKET.search(text):
        return BucketProblem.NO_BUCKET
    if _REGION.search(text):
        return BucketProblem.REGION
    if status is None:
        return BucketProblem.UNREACHABLE if _UNREACHABLE.search(text) else BucketProblem.SERVER
    if status == 429 or (status == 503 and "SlowDown" in text):
        return BucketProblem.THROTTLED
    return BucketProblem.CONDITION if status in (404, *_CONDITION) else BucketProblem.SERVER


def _message(problem: BucketProblem, url: BucketUrl, answer: str) -> str:
    given = f" ({answer})" if answer else ""
    match problem:
        case BucketProblem.CONDITION:
            return f"the server reports that the condition failed{given}: read the object to learn which write is in it"
        case BucketProblem.THROTTLED:
            return f"too many requests{given}: write less often, for example with ?interval=1s"
        case BucketProblem.DENIED:
            return (
                f"access denied{given}: allow reading, writing, deleting and listing objects below the prefix, and check the credentials:"
                f" {url.credentials}"
            )
        case BucketProblem.NO_BUCKET:
            return f"{url.server} has no such bucket{given}: create it, or correct the URL"
        case BucketProblem.REGION:
            return f"the bucket is in another region{given}: write its region into the URL, ?region=eu-central-1"
        case BucketProblem.UNREACHABLE:
            return (
                f"no answer from {url.server}: check that it is running and reachable, and that the endpoint in the URL is right"
            )
        case BucketProblem.SERVER:
            reason = f"answered {answer}" if answer else "gave no answer that can be read, or cut the connection"
            return f"{url.server} {reason}: check the state of the server, then try again"
