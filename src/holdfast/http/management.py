"""All calls of the management API, from one list: the broker and the dashboard mount the same."""

from holdfast.http.bulk import BulkActions
from holdfast.http.history_resources import HistoryResources
from holdfast.http.job_resources import JobResources
from holdfast.http.job_verbs import JobVerbs
from holdfast.http.managed import Managed
from holdfast.http.operation import Operation
from holdfast.http.operations import Operations
from holdfast.http.resources import Resources
from holdfast.http.revealing import Revealing
from holdfast.http.submitting import Submitting
from holdfast.http.verbs import Verbs


def operations_of(managed: Managed) -> Operations:
    """Return what works off actions on many jobs in this process."""
    return Operations(lambda: managed.client, lambda: managed.environment().chance.uuid4())


def management(managed: Managed, operations: Operations | None = None) -> list[Operation]:
    """Return the calls that submit, read and change."""
    submitting = Submitting(managed.environment, lambda: managed.client, managed.registry)
    return [
        *submitting.operations(),
        *JobResources(managed).operations(),
        *JobVerbs(managed).operations(),
        *Revealing(managed).operations(),
        *BulkActions(managed, operations or operations_of(managed)).operations(),
        *Resources(managed).operations(),
        *HistoryResources(managed).operations(),
        *Verbs(managed).operations(),
    ]
