"""Strangers at every socket of a tree, while it works: no cell ends, and no attempt is lost."""

from pathlib import Path

import orjson
import pytest

from tests.actors.troupe.stranger import (
    GARBAGE,
    SIX_BYTES,
    Address,
    as_nobody,
    connected,
    listeners,
    nonsense,
    peak_bytes,
    say,
)
from tests.long import IS_LONG, SCALED
from tests.tree.house import Up, accepted, add, prove, statuses
from understudy.actors.otp.carriers.process import process_id
from understudy.actors.otp.identity import identity
from understudy.actors.tree.plan import RUN_FOLDER

pytestmark = pytest.mark.timeout(240)

ISSUES = 60 if IS_LONG else 8
SAYINGS = 2_000 if IS_LONG else 60
SILENT = 3_000 if IS_LONG else 400
BYTES_MAX = 192 * 2**20


def _addresses(up: Up) -> list[Address]:
    """Where its processes take connections; the one behind the system looks only when it ends."""
    run_dir = up.state_dir / RUN_FOLDER
    picture = up.picture()
    backstage = orjson.loads((run_dir / "run.json").read_bytes())["backstage"]["pid"]
    found = process_id.members(picture["system"])
    assert backstage in [each.pid for each in found]
    processes = [identity(up.pid), *(each for each in found if each.pid != backstage)]
    return listeners(processes, up.state_dir, run_dir, run_dir / "live" / "sockets")


def _cells(up: Up) -> dict[str, int]:
    return {each["id"]: each["pid"] for each in up.picture()["tree"]}


@SCALED
def test_whatever_is_said_to_its_sockets_a_tree_loses_no_cell_and_no_attempt(
    state_dir: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    names = add(state_dir, *(f"i{number}" for number in range(ISSUES)))
    command = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    with Up(state_dir, "--exec", command, "--workers", "3", "--until-done") as up:
        up.ready()
        before = _cells(up)
        addresses = _addresses(up)
        assert len(addresses) > len(before)
        for address in addresses:
            say(address, SIX_BYTES)
        assert _cells(up) == before
        for address in addresses:
            for data in (*GARBAGE, *nonsense(14, SAYINGS // len(addresses))):
                say(address, data)
        silent = [connected(addresses[number % len(addresses)]) for number in range(SILENT)]
        for each in silent[::2]:
            each.sendall(b"10")
        assert _cells(up) == before
        gate.touch()
        assert up.wait() == 0, up.complaint()
        for each in silent:
            each.close()
    assert set(statuses(state_dir).values()) == {"closed"}
    assert accepted(state_dir, "issue.claim") == dict.fromkeys(names, 1)
    prove(state_dir)
