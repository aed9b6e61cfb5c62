"""The release that this code is. The package takes its version from here; ``importlib.metadata`` would take 2 MB of each supervisor."""

from typing import Final

VERSION: Final = "0.1.0"

UPGRADE: Final = "upgrade holdfast to the release that migrated the store"
"""The remedy for a store that a newer release has migrated."""
