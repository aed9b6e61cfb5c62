"""The composition root: App wires store, transport, clock and host. The only file that knows all rooms."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload
from urllib.parse import unquote, urlsplit

from holdfast._core.durations import Duration
from holdfast._core.payload import encode_payload
from holdfast._core.policy import Backoff, Policy
from holdfast._engine.client import Client
from holdfast._engine.context import Job, SyncJob
from holdfast._engine.events import Event, Events
from holdfast._engine.handle import Handle
from holdfast._engine.operators import Jobs, RecoveryRun, Workers
from holdfast._engine.options import Options
from holdfast._engine.recovery import Contact, Recovery, Rescued
from holdfast._engine.registry import Errors, Registry, define, problems_of_names
from holdfast._engine.task import Desk, Task
from holdfast._ports.clock import SystemChance, SystemClock
from holdfast._ports.store import Check, LeaseView, Store
from holdfast._ports.transport import Transport
from holdfast.errors import ConfigurationError
from holdfast.settings import Settings
from holdfast.sync import blocking
