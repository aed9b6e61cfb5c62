"""Holdfast: background jobs that survive the death of the process that runs them."""

import importlib
from typing import TYPE_CHECKING

from holdfast._core.job import AttemptOutcome, Failed, Failure, NoResult, Reason, RescueReason, State, Token
from holdfast._core.policy import Backoff, CrashPolicy
from holdfast._engine.client.handle import Handle
from holdfast._engine.events import Event
from holdfast._engine.runners.options import Runners
from holdfast._engine.tasks.task import Task
from holdfast.app import App
from holdfast.errors import (
    ConfigurationError,
    HoldfastError,
    InsideEventLoop,
    InvalidCron,
    InvalidCursor,
    JobCancelled,
    JobFailed,
    JobLost,
    JobNotFound,
    MissingExtra,
    PayloadInvalid,
    PayloadTooLarge,
    ResultInvalid,
    RowsLost,
    SchemaMissing,
    SchemaTooNew,
    StoreBusy,
    StoreDamaged,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    UniqueConflict,
    UnknownTask,
    Unsupported,
)
from holdfast.settings import RecoverySwitches

if TYPE_CHECKING:  # `__getattr__` loads these when a program first names one: not every program needs them
    from holdfast._core.answers import BeatView, LeaseView, Pruned, QueueView
    from holdfast._core.audit import AuditEntry
    from holdfast._core.cause import Cause, Code
    from holdfast._core.error_groups import ErrorGroup, ErrorList
    from holdfast._core.explanation import Explanation
    from holdfast._core.limits import Limit
    from holdfast._core.outcome import Cancel, Fail, Retry, Snooze
    from holdfast._core.requests import QueueSettings
    from holdfast._core.schedule import ScheduleView
    from holdfast._core.ticks import cron, every
    from holdfast._core.view import AttemptView, JobView, Rescued, RescuedJob
    from holdfast._core.workflow import Repair, Revived
    from holdfast._core.workflow_view import NodeView, WorkflowView
    from holdfast._engine.operators.limits import LimitStatus
    from holdfast._engine.operators.operators import Steered, Where
    from holdfast._engine.operators.stale import StaleJob
    from holdfast._engine.rows.batch import Batch, BatchTransaction, SyncBatch, SyncBatchTransaction
    from holdfast._engine.rows.rows import Rows
    from holdfast._engine.tasks.after import AtLeast
    from holdfast._engine.tasks.around_enqueue import NewJobView
    from holdfast._engine.tasks.context import Job, SyncJob
    from holdfast._engine.workflows.builder import Workflow
    from holdfast._engine.workflows.definition import WorkflowDefinition
    from holdfast._engine.workflows.groups import TaskGroup
    from holdfast._engine.workflows.handle import WorkflowHandle
    from holdfast._engine.workflows.node import Node, each

__all__ = [
    "App",
    "AtLeast",
    "AttemptOutcome",
    "AttemptView",
    "AuditEntry",
    "Backoff",
    "Batch",
    "BatchTransaction",
    "BeatView",
    "Cancel",
    "Cause",
    "Code",
    "ConfigurationError",
    "CrashPolicy",
    "ErrorGroup",
    "ErrorList",
    "Event",
    "Explanation",
    "Fail",
    "Failed",
    "Failure",
    "Handle",
    "HoldfastError",
    "InsideEventLoop",
    "InvalidCron",
    "InvalidCursor",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobLost",
    "JobNotFound",
    "JobView",
    "LeaseView",
    "Limit",
    "LimitStatus",
    "MissingExtra",
    "NewJobView",
    "NoResult",
    "Node",
    "NodeView",
    "PayloadInvalid",
    "PayloadTooLarge",
    "Pruned",
    "QueueSettings",
    "QueueView",
    "Reason",
    "RecoverySwitches",
    "Repair",
    "RescueReason",
    "Rescued",
    "RescuedJob",
    "ResultInvalid",
    "Retry",
    "Revived",
    "Rows",
    "RowsLost",
    "Runners",
    "ScheduleView",
    "SchemaMissing",
    "SchemaTooNew",
    "Snooze",
    "StaleJob",
    "State",
    "Steered",
    "StoreBusy",
    "StoreDamaged",
    "StoreFull",
    "StoreRefused",
    "StoreUnavailable",
    "SyncBatch",
    "SyncBatchTransaction",
    "SyncJob",
    "Task",
    "TaskGroup",
    "Token",
    "UniqueConflict",
    "UnknownTask",
    "Unsupported",
    "Where",
    "Workflow",
    "WorkflowDefinition",
    "WorkflowHandle",
    "WorkflowView",
    "cron",
    "each",
    "every",
]

_LOADED_WHEN_NAMED = {
    "holdfast._core.answers": ("BeatView", "LeaseView", "Pruned", "QueueView"),
    "holdfast._core.audit": ("AuditEntry",),
    "holdfast._core.cause": ("Cause", "Code"),
    "holdfast._core.error_groups": ("ErrorGroup", "ErrorList"),
    "holdfast._core.explanation": ("Explanation",),
    "holdfast._core.limits": ("Limit",),
    "holdfast._core.outcome": ("Cancel", "Fail", "Retry", "Snooze"),
    "holdfast._core.requests": ("QueueSettings",),
    "holdfast._core.schedule": ("ScheduleView",),
    "holdfast._core.ticks": ("cron", "every"),
    "holdfast._core.view": ("AttemptView", "JobView", "Rescued", "RescuedJob"),
    "holdfast._core.workflow": ("Repair", "Revived"),
    "holdfast._core.workflow_view": ("NodeView", "WorkflowView"),
    "holdfast._engine.operators.limits": ("LimitStatus",),
    "holdfast._engine.operators.operators": ("Steered", "Where"),
    "holdfast._engine.operators.stale": ("StaleJob",),
    "holdfast._engine.rows.batch": ("Batch", "BatchTransaction", "SyncBatch", "SyncBatchTransaction"),
    "holdfast._engine.rows.rows": ("Rows",),
    "holdfast._engine.tasks.after": ("AtLeast",),
    "holdfast._engine.tasks.around_enqueue": ("NewJobView",),
    "holdfast._engine.tasks.context": ("Job", "SyncJob"),
    "holdfast._engine.workflows.builder": ("Workflow",),
    "holdfast._engine.workflows.definition": ("WorkflowDefinition",),
    "holdfast._engine.workflows.groups": ("TaskGroup",),
    "holdfast._engine.workflows.handle": ("WorkflowHandle",),
    "holdfast._engine.workflows.node": ("Node", "each"),
}
_MODULE_OF = {name: module for module, names in _LOADED_WHEN_NAMED.items() for name in names}


if not TYPE_CHECKING:  # a type checker that saw it would accept any name

    def __getattr__(name):
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(module), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
