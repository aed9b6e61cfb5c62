"""Figures and signals as sentences show them."""


def percent(fraction: float) -> str:
    """Return how far an attempt is.

    >>> percent(0.524)
    '52 %'
    """
    return f"{fraction * 100:.0f} %"


def as_clause(signal: str) -> str:
    """Return how a process ended, without brackets.

    >>> as_clause("SIGKILL (out of memory)")
    'SIGKILL, out of memory'
    """
    return signal.replace(" (", ", ").removesuffix(")") if signal.endswith(")") else signal
