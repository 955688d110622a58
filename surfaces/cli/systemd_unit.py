"""A unit for systemd that keeps `understudy up` running, and how words are quoted in it."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ...contracts import Exit

MARK = "# written by `understudy service install`; it may be changed, and is then left alone"
_STOP_SECONDS = 150  # a tree hands its leases back, and ends what its workers started
# What a restart would not mend: blocked work, failing work, a command that cannot run, wrong usage.
_NO_RESTART = (Exit.WORK_BLOCKED, Exit.WORK_FAILING, Exit.CONFIG, Exit.USAGE)


class UnitPlan(NamedTuple):
    """What a unit is made from."""

    words: Sequence[str]  # of `understudy up`
    state_dir: Path
    work_dir: Path
    secrets: Path  # an environment file, which need not be there
    run_as: str | None = None  # None in a user's own unit

    @property
    def is_system(self) -> bool:
        return self.run_as is not None


def unit_text(plan: UnitPlan) -> str:
    """The whole file."""
    command = [sys.executable, "-m", "understudy", "up", "--state-dir", str(plan.state_dir)]
    lines = [
        MARK,
        "[Unit]",
        "Description=Understudy: a supervision tree for agents and workers",
        "After=network-online.target",
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={' '.join(quoted(word) for word in (*command, *plan.words))}",
        f"WorkingDirectory={_plain(plan.work_dir)}",
        "# Tokens and passwords go here, and nowhere else: a unit can be read by everybody.",
        f"EnvironmentFile=-{_plain(plan.secrets)}",
        "Restart=on-failure",
        "RestartSec=5",
        f"RestartPreventExitStatus={' '.join(str(int(each)) for each in _NO_RESTART)}",
        "# The tree is told first, and ends what its workers started; what is left is killed.",
        "KillMode=mixed",
        f"TimeoutStopSec={_STOP_SECONDS}",
        "LimitNOFILE=65536",
        "UMask=0077",
        "NoNewPrivileges=yes",
        "RestrictSUIDSGID=yes",
        "LockPersonality=yes",
        "RestrictRealtime=yes",
        "SystemCallArchitectures=native",
    ]
    if plan.is_system:
        lines += [
            f"User={plan.run_as}",
            "# Workers write in their folder and in the state directory; add what else yours need.",
            "ProtectSystem=strict",
            f"ReadWritePaths={quoted(str(plan.work_dir))} {quoted(str(plan.state_dir))}",
            "PrivateTmp=yes",
            "PrivateDevices=yes",
            "ProtectKernelTunables=yes",
            "ProtectKernelModules=yes",
            "ProtectKernelLogs=yes",
            "ProtectControlGroups=yes",
            "ProtectClock=yes",
            "ProtectHostname=yes",
            "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
            "CapabilityBoundingSet=",
        ]
    target = "multi-user.target" if plan.is_system else "default.target"
    return "\n".join([*lines, "", "[Install]", f"WantedBy={target}", ""])


def quoted(word: str) -> str:
    """A word of a command as systemd reads it; `ValueError` for one that it cannot have."""
    if any(not each.isprintable() for each in word.replace("\t", "")):
        raise ValueError(f"{word!r}: a unit has no spelling for it")
    for plain, spelt in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$"), ("\t", "\\t")):
        word = word.replace(plain, spelt)
    return f'"{word}"'


def _plain(path: Path) -> str:
    """A path that is not split into words; only its `%` mean something."""
    text = str(path)
    if any(not each.isprintable() for each in text):
        raise ValueError(f"{text!r}: a unit has no spelling for it")
    return text.replace("%", "%%")
