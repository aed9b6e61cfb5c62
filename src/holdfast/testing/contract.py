"""The contract of every store, as tests: subclass it, define how a store is made, and pytest runs the rest.

>>> from holdfast.stores.memory import MemoryStore
>>> class TestMemory(StoreContract):
...     def setup_method(self):
...         self.store = None
...     def make_store(self, clock):
...         self.store = self.store or MemoryStore(clock)
...         return self.store
"""

from holdfast.testing.contracts.auditing import AuditContract
from holdfast.testing.contracts.bystanding import BystandContract
from holdfast.testing.contracts.capacity import CapacityContract
from holdfast.testing.contracts.children import ChildContract
from holdfast.testing.contracts.claiming import ClaimContract
from holdfast.testing.contracts.delivering import DeliverContract
from holdfast.testing.contracts.enqueuing import EnqueueContract
from holdfast.testing.contracts.expiring import ExpiryContract
from holdfast.testing.contracts.failing import ErrorContract
from holdfast.testing.contracts.fencing import FenceContract
from holdfast.testing.contracts.isolating import LastTryContract
from holdfast.testing.contracts.key_periods import KeyPeriodContract
from holdfast.testing.contracts.keys import KeyContract
from holdfast.testing.contracts.limiting import LimitContract
from holdfast.testing.contracts.lines import LineContract
from holdfast.testing.contracts.noting import NoteContract
from holdfast.testing.contracts.operating import OperateContract
from holdfast.testing.contracts.owning import LeaseContract
from holdfast.testing.contracts.placing import PlaceContract
from holdfast.testing.contracts.prefetching import PrefetchContract
from holdfast.testing.contracts.pruning import PruneContract
from holdfast.testing.contracts.queues import QueueContract
from holdfast.testing.contracts.racing import RaceContract
from holdfast.testing.contracts.rates import RateContract
from holdfast.testing.contracts.reading import ReadContract
from holdfast.testing.contracts.recording_minutes import HistoryContract
from holdfast.testing.contracts.reporting import ReportContract
from holdfast.testing.contracts.rescuing import RescueContract
from holdfast.testing.contracts.scheduling import ScheduleContract
from holdfast.testing.contracts.settling import SettleContract
from holdfast.testing.contracts.signalling import SignalContract
from holdfast.testing.contracts.steering import SteerContract
from holdfast.testing.contracts.stepping import StepContract
from holdfast.testing.contracts.turns import TurnContract
from holdfast.testing.contracts.vitals import VitalsContract
from holdfast.testing.contracts.voiding import VoidContract
from holdfast.testing.contracts.workflow_changes import WorkflowChangeContract
from holdfast.testing.contracts.workflow_children import WorkflowChildrenContract
from holdfast.testing.contracts.workflow_dependents import DependentJobsContract
from holdfast.testing.contracts.workflow_maps import WorkflowMapContract
from holdfast.testing.contracts.workflow_neighbours import WorkflowNeighbourContract
from holdfast.testing.contracts.workflow_outsiders import OutsiderContract
from holdfast.testing.contracts.workflow_parents import ParentContract
from holdfast.testing.contracts.workflow_racing import WorkflowRaceContract
from holdfast.testing.contracts.workflow_steering import WorkflowSteeringContract
from holdfast.testing.contracts.workflow_steps import WorkflowStepContract
from holdfast.testing.contracts.workflow_wide import WideWorkflowContract
from holdfast.testing.contracts.workflows import WorkflowContract


class StoreContract(
    EnqueueContract,
    KeyContract,
    KeyPeriodContract,
    ChildContract,
    ClaimContract,
    LineContract,
    TurnContract,
    CapacityContract,
    RateContract,
    DeliverContract,
    ExpiryContract,
    LastTryContract,
    SettleContract,
    SteerContract,
    PlaceContract,
    FenceContract,
    BystandContract,
    RescueContract,
    PrefetchContract,
    VoidContract,
    LimitContract,
    ReportContract,
    OperateContract,
    QueueContract,
    AuditContract,
    HistoryContract,
    PruneContract,
    VitalsContract,
    LeaseContract,
    NoteContract,
    ReadContract,
    ErrorContract,
    ScheduleContract,
    StepContract,
    SignalContract,
    WorkflowContract,
    WideWorkflowContract,
    WorkflowChangeContract,
    WorkflowChildrenContract,
    WorkflowMapContract,
    WorkflowSteeringContract,
    WorkflowNeighbourContract,
    WorkflowRaceContract,
    DependentJobsContract,
    ParentContract,
    OutsiderContract,
    WorkflowStepContract,
    RaceContract,
):
    """Each verb, each refusal, lost answers, races, and the clock at the edge.

    Override ``make_store(clock)``, which must give another handle on the same jobs each time one test calls it, and
    ``advance(clock, seconds)`` and ``step_wall(clock, seconds)`` for a store that judges by a separate clock. For one
    without a clock, ``advance`` lets every handle see all leases and running jobs first, because it counts from then on.
    """
