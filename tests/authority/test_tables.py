"""The SQL tables: what they show is the state, however they came to it."""

from pathlib import Path
from random import Random
from typing import Any

import apsw
import msgspec
import pytest

from tests.authority.pair import Pair
from tests.fakes.desk import START_MS, Desk
from understudy.authority.state import State
from understudy.authority.tables import Tables
from understudy.authority.tables import file as tables_module
from understudy.contracts import rfc3339
from understudy.contracts.records import BLOCKING_TYPES, Issue

MOMENT = rfc3339.record_text(START_MS)
NAMES = ("issue", "dependency", "lease", "sublease", "instance", "fiber")
Shown = dict[str, list[tuple[Any, ...]]]


def shown(path: Path) -> Shown:
    db = apsw.Connection(str(path))
    return {name: sorted(db.execute(f"SELECT * FROM {name}"), key=repr) for name in NAMES}


def expected(path: Path, state: State) -> Shown:
    """The state's records, in the columns that the tables have."""
    with apsw.Connection(str(path)) as db:
        columns = {
            name: [row[1] for row in db.execute(f"PRAGMA table_info({name})")] for name in NAMES
        }

    def cells(name: str, record: msgspec.Struct) -> tuple[Any, ...]:
        members = msgspec.structs.asdict(record)
        members["blocking"] = members.get("type") in BLOCKING_TYPES
        values = [members[column] for column in columns[name]]
        return tuple(_cell(value) for value in values)

    links = [link for each in state.dependencies.values() for link in each]
    records: dict[str, list[Any]] = {
        "issue": list(state.issues.values()),
        "dependency": links,
        "lease": list(state.leases.values()),
        "sublease": [one for each in state.subleases.values() for one in each.values()],
        "instance": [one for each in state.instances.values() for one in each.values()],
        "fiber": [one for each in state.fibers.values() for one in each.values()],
    }
    return {
        name: sorted((cells(name, record) for record in records[name]), key=repr) for name in NAMES
    }


def _cell(value: object) -> object:
    if isinstance(value, tuple):
        return "\n".join(value)
    return (
        int(value) if isinstance(value, bool) else str(value) if isinstance(value, str) else value
    )


@pytest.mark.parametrize("seed", range(12))
def test_the_tables_are_the_state_after_any_walk(seed: int, tmp_path: Path) -> None:
    pair = Pair()
    path = tmp_path / "t.db"
    tables = Tables(path)
    for part in range(3):
        pair.wander(Random(seed * 10 + part), 60)
        tables.follow(pair.desk.journal)
        assert tables.watermark() == pair.desk.authority.head.seq
        assert shown(path) == expected(path, pair.desk.authority.state)
    assert tables.follow(pair.desk.journal) == 0
    anew = tmp_path / "anew.db"
    Tables(anew).follow(pair.desk.journal)
    assert shown(anew) == shown(path), "a rebuild from nothing gives the same"


def test_an_issue_shows_every_column(tmp_path: Path) -> None:
    desk, path = Desk(), tmp_path / "t.db"
    record = {
        "id": "a", "title": "t", "created_at": MOMENT, "updated_at": MOMENT, "ephemeral": True,
        "labels": ["x", "y"], "metadata": '{"k":1}', "mol_type": "m", "closed_at": MOMENT,
    }  # fmt: skip
    desk.grant("issue.import", "cli", records=[record])
    desk.grant("issue.update", id="a", labels=["z"], notes="n")
    Tables(path).follow(desk.journal)
    assert shown(path) == expected(path, desk.authority.state)
    with apsw.Connection(str(path)) as db:
        columns = {row[1] for row in db.execute("PRAGMA table_info(issue)")}
    assert columns == set(Issue.__struct_fields__) - {"extra", "comments"}


def test_what_is_dropped_is_gone_from_the_tables_too(tmp_path: Path) -> None:
    desk, path = Desk(), tmp_path / "t.db"
    for key in ("a", "b"):
        desk.grant("issue.add", id=key, title="t")
    ann = desk.claim("a", "ann")
    lent = {"newSubleaseId": "s", "holder": "h", "capabilityScope": []}
    desk.grant("sublease.grant", **ann, **lent)
    desk.grant("instance.open", **ann, instanceId="w")
    desk.grant("dep.add", **ann, dependsOnId="b")
    desk.grant("fiber.spawn", **ann, taskRef="t", fiberId="f")
    tables = Tables(path)
    tables.follow(desk.journal)
    assert [len(rows) for rows in shown(path).values()] == [2, 1, 1, 1, 1, 1]
    desk.grant("fiber.join", **ann, fiberId="f", resultRef="log:1")
    desk.grant("sublease.revoke", **ann, revokedSubleaseId="s")
    desk.grant("instance.close", **ann, instanceId="w")
    desk.grant("dep.remove", **ann, dependsOnId="b")
    desk.grant("issue.lease_release", **ann)
    tables.follow(desk.journal)
    assert [len(rows) for rows in shown(path).values()] == [2, 0, 0, 0, 0, 0]
    assert shown(path) == expected(path, desk.authority.state)


def test_a_crash_in_the_middle_leaves_the_watermark_and_the_rows_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException):
        pass

    def crash(_: str) -> None:
        raise Crash

    desk, path = Desk(), tmp_path / "t.db"
    desk.grant("issue.add", id="a", title="t")
    tables = Tables(path)
    tables.follow(desk.journal)
    desk.claim("a", "ann")
    with monkeypatch.context() as patch:
        patch.setattr(tables_module, "failpoint", crash)
        with pytest.raises(Crash):
            tables.follow(desk.journal)
    tables.close()
    again = Tables(path)
    assert (again.watermark(), shown(path)["lease"]) == (1, [])
    assert again.follow(desk.journal) == 1
    assert shown(path) == expected(path, desk.authority.state)


def test_a_reclaim_ends_in_the_tables_what_hung_on_the_old_term(tmp_path: Path) -> None:
    desk, path = Desk(), tmp_path / "t.db"
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann", leaseTtlSeconds=30)
    desk.grant("sublease.grant", **ann, holder="h", capabilityScope=["issue.close"])
    desk.grant("instance.open", **ann, instanceId="w")
    for name in ("joined", "running"):
        desk.grant("fiber.spawn", **ann, taskRef="t", fiberId=name)
    desk.grant("fiber.join", **ann, fiberId="joined")
    tables = Tables(path)
    tables.follow(desk.journal)
    assert [len(rows) for rows in shown(path).values()] == [1, 0, 1, 1, 1, 2]
    desk.time.passes(30_001)
    desk.claim("a", "bob")
    tables.follow(desk.journal)
    assert [len(rows) for rows in shown(path).values()] == [1, 0, 1, 0, 0, 1]
    assert shown(path) == expected(path, desk.authority.state), "what ran is orphaned"


def test_closed_work_has_no_fibers_in_the_tables(tmp_path: Path) -> None:
    desk, path = Desk(), tmp_path / "t.db"
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann")
    desk.grant("fiber.spawn", **ann, taskRef="t")
    desk.grant("issue.lease_break", id="a", reason="stuck")
    tables = Tables(path)
    tables.follow(desk.journal)
    assert len(shown(path)["fiber"]) == 1
    desk.grant("issue.close", id="a")
    tables.follow(desk.journal)
    assert shown(path)["fiber"] == []
    assert shown(path) == expected(path, desk.authority.state)


def test_a_dependency_that_stands_twice_in_a_record_is_refused() -> None:
    """The state would keep both, and the table one."""
    links = [{"depends_on_id": "b", "created_by": who} for who in ("ann", "bob")]
    record = {"id": "a", "title": "t", "created_at": MOMENT, "updated_at": MOMENT}
    found = Desk().refusal("issue.import", "cli", records=[record | {"dependencies": links}])
    assert found == "issue_invalid_payload"
