"""The token of a claim as a worker over HTTP gets it: one string, which it returns with each call about the job."""

from uuid import UUID

from msgspec import Struct

from holdfast._core.job import ActiveJob, Token
from holdfast.http.problems import ApiError

LONGEST = 90


class ClaimToken(Struct, frozen=True):
    """The lease of one job, and the claim that fences every write about it.

    >>> ClaimToken(UUID(int=1), UUID(int=2), 3).text
    '00000000000000000000000000000001.00000000000000000000000000000002.3'
    """

    lease: UUID
    claim: UUID
    number: int

    @property
    def text(self) -> str:
        """The token in one string."""
        return f"{self.lease.hex}.{self.claim.hex}.{self.number}"

    @property
    def token(self) -> Token:
        """The token as the store knows it."""
        return Token(self.claim, self.number)

    @classmethod
    def of_job(cls, job: ActiveJob, lease: UUID) -> "ClaimToken":
        """Return the token of a job that was claimed by this lease."""
        assert job.token.claim is not None
        return cls(lease, job.token.claim, job.token.number)

    @classmethod
    def of(cls, text: str) -> "ClaimToken":
        """Read a string. Raises ``ApiError`` for one that is not a token."""
        lease, _, rest = text.partition(".")
        claim, _, number = rest.partition(".")
        try:
            if len(text) > LONGEST or not (number.isascii() and number.isdecimal()):
                raise ValueError
            return cls(UUID(hex=lease), UUID(hex=claim), int(number))
        except ValueError:
            raise ApiError(422, "invalid", "token is not one that a claim has returned", "send it as it was returned") from None
