"""The law: the only room where a lease changes hands.

Other rooms take what they need from here; `client`, `exchange`, `kernel`, `native`, `replay`,
`sidecar`, `tables`, `trajectory` and `conformance` are modules that a command loads when it needs
them.
"""

from .journal import GENESIS, Unavailable
from .service import (
    SOCKET,
    TABLES,
    TRAJECTORY,
    Evidence,
    Office,
    create_state_dir,
    evidence_locked,
    locked,
    open_journal,
)

__all__ = [
    "GENESIS",
    "SOCKET",
    "TABLES",
    "TRAJECTORY",
    "Evidence",
    "Office",
    "Unavailable",
    "create_state_dir",
    "evidence_locked",
    "locked",
    "open_journal",
]
