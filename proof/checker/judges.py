"""All rules that read a history beside those of ownership."""

from proof.checker.app_rules import Apps
from proof.checker.blocked import Blocked
from proof.checker.budgets import Budgets
from proof.checker.cancels import Cancels
from proof.checker.charges import Charges
from proof.checker.flows import Flows
from proof.checker.hooks import Hooks
from proof.checker.inputs import Inputs
from proof.checker.inserts import Inserts
from proof.checker.lanes import Lanes
from proof.checker.locks import Locks
from proof.checker.order import Order
from proof.checker.own_rows import OwnRows
from proof.checker.reigns import Reigns
from proof.checker.restarts import Restarts
from proof.checker.row_turns import RowTurns
from proof.checker.schedules import Schedules
from proof.checker.starts import Starts
from proof.checker.steps import Steps
from proof.checker.zombies import Zombies

JUDGES = (
    *(Apps, Inserts, Cancels, Charges, Starts, Zombies, Hooks, Budgets, Locks, Order, Restarts, RowTurns, Schedules, Lanes),
    *(Flows, Inputs, Steps, Blocked, Reigns, OwnRows),
)
