"""Strangers at every socket of a tree, while it works: no cell ends, and no attempt is lost."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pytest

from tests.actors.otp.carriers.process.stranger import (
    GARBAGE,
    SIX_BYTES,
    Address,
    as_nobody,
    connected,
    heard,
    listeners,
    nonsense,
    peak_bytes,
    say,
)
from tests.long import IS_LONG, SCALED
from tests.patience import eventually
from tests.tree.house import Up, accepted, add, prove, statuses
from understudy.actors.otp.carriers.process import process_id
from understudy.actors.otp.identity import identity
from understudy.actors.tree.plan import RUN_FOLDER
from understudy.authority.journal.state_dir import create_state_dir

pytestmark = pytest.mark.timeout(240)

ISSUES = 60 if IS_LONG else 8
SAYINGS = 4_000 if IS_LONG else 60
SILENT = 4_000 if IS_LONG else 400
FLOOD_BYTES = 256 * 2**20 if IS_LONG else 32 * 2**20
GROWTH_BYTES_MAX = 16 * 2**20


def _addresses(up: Up) -> list[Address]:
    """Where its processes take connections; the one behind the system looks only when it ends."""
    run_dir = up.state_dir / RUN_FOLDER
    backstage = orjson.loads((run_dir / "run.json").read_bytes())["backstage"]["pid"]
    found = process_id.members(up.picture()["system"])
    processes = [identity(up.pid), *(each for each in found if each.pid != backstage)]
    return listeners(processes, up.state_dir, run_dir, run_dir / "live" / "sockets")


def _cells(children: list[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    for each in children:
        yield each["id"], each["pid"]
        yield from _cells(each.get("children", []))


def _pids(up: Up) -> dict[str, int]:
    """Of everything that listens."""
    picture = up.picture()
    outside = {f"{name} outside": picture[name]["pid"] for name in ("authority", "gateway")}
    return {**picture["processes"], **dict(_cells(picture["tree"])), **outside}


@SCALED
def test_whatever_is_said_to_its_sockets_a_tree_loses_no_cell_and_no_attempt(
    state_dir: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    names = add(state_dir, "last", *(f"i{number}" for number in range(ISSUES)))
    waits = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    command = f"if [ $UNDERSTUDY_ISSUE = last ]; then {waits}; else sleep 0.2; fi"
    with (
        Up(state_dir, "--exec", command, "--workers", "3", "--until-done", "--mcp") as up,
        ExitStack() as on,
    ):
        up.ready()
        eventually((state_dir / "mcp.sock").exists)
        before = _pids(up)
        memory = {pid: peak_bytes(pid) for pid in before.values()}
        addresses = _addresses(up)
        assert {Path(str(each)).name for each in addresses} > {
            "authority.sock", "mcp.sock", "tree.sock"
        }  # fmt: skip
        assert len(addresses) >= len(before)
        for address in addresses:
            say(address, SIX_BYTES)
        assert _pids(up) == before
        for address in addresses:
            for data in (*GARBAGE, *nonsense(14, SAYINGS // len(addresses))):
                say(address, data)
        for number in range(SILENT):
            line = on.enter_context(connected(addresses[number % len(addresses)]))
            with suppress(BrokenPipeError):  # the control socket hears so many at a time
                line.sendall(b"10"[: number % 3])
        assert _pids(up) == before
        for address in addresses:
            say(address, b"100000000>" + bytes(FLOOD_BYTES // len(addresses)))
        assert _pids(up) == before
        for pid, bytes_before in memory.items():
            assert peak_bytes(pid) - bytes_before < GROWTH_BYTES_MAX
        gate.touch()
        assert up.wait() == 0, up.complaint()
    assert set(statuses(state_dir).values()) == {"closed"}
    assert accepted(state_dir, "issue.claim") == dict.fromkeys(names, 1)
    prove(state_dir)


def test_another_user_reaches_no_socket_of_a_tree() -> None:
    with TemporaryDirectory() as folder:
        state_dir = Path(folder) / "state"
        create_state_dir(state_dir, "local")
        with Up(state_dir, "--exec", "true", "--mcp") as up:
            up.ready()
            eventually((state_dir / "mcp.sock").exists)
            run_dir = state_dir / RUN_FOLDER
            for each in (Path(folder), state_dir, run_dir, run_dir / "live"):
                each.chmod(0o755)
            before, addresses = _pids(up), _addresses(up)
            found = as_nobody(lambda: [heard(address, SIX_BYTES) for address in addresses])
            assert found == ["PermissionError"] * len(addresses)
            assert _pids(up) == before
