"""The names of the collections of one store, which begin with the name of its schema."""

from msgspec import Struct


class Names(Struct, frozen=True):
    """The collections below a schema."""

    schema: str

    @property
    def jobs(self) -> str:
        return f"{self.schema}.jobs"

    @property
    def attempts(self) -> str:
        return f"{self.schema}.attempts"

    @property
    def leases(self) -> str:
        return f"{self.schema}.leases"

    @property
    def state(self) -> str:
        return f"{self.schema}.state"

    @property
    def schedules(self) -> str:
        return f"{self.schema}.schedules"

    @property
    def beats(self) -> str:
        return f"{self.schema}.beats"

    @property
    def rates(self) -> str:
        return f"{self.schema}.rates"

    @property
    def steps(self) -> str:
        return f"{self.schema}.steps"

    @property
    def signals(self) -> str:
        return f"{self.schema}.signals"

    @property
    def flows(self) -> str:
        return f"{self.schema}.flows"

    @property
    def audits(self) -> str:
        return f"{self.schema}.audits"

    @property
    def minutes(self) -> str:
        return f"{self.schema}.minutes"

    @property
    def fences(self) -> str:
        return f"{self.schema}.fences"

    @property
    def edges(self) -> str:
        return f"{self.schema}.edges"

    @property
    def hints(self) -> str:
        return f"{self.schema}.hints"
