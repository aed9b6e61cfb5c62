"""Agenda."""

from __future__ import annotations

from bench.peers_torture.contestants import Order, node


def prepare(order: Order) -> None:
    """Do nothing: it makes its collection when it connects."""


def enqueue(order: Order, count: int) -> None:
    node.enqueue("agenda", order, count)


def work(order: Order) -> None:
    node.work("agenda", order)
