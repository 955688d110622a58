"""The SQL tables: what they show is the state, however they came to it."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from tests.authority.chain import Chain
from tests.authority.pair import Pair
from tests.fakes.desk import START_MS, Desk
from understudy.authority.conformance.picture import faults, hung, painted
from understudy.authority.journal.journal import Journal
from understudy.authority.journal.tables import Tables
from understudy.authority.journal.tables import file as tables_module
from understudy.authority.journal.tables.changes import statements
from understudy.authority.journal.tables.schema import ISSUE
from understudy.authority.law.outcome import JobPut
from understudy.authority.law.state import State
from understudy.contracts import JobRecord, rfc3339
from understudy.contracts.records.records import Issue

MOMENT = rfc3339.record_text(START_MS)
NAMES = ("issue", "dependency", "lease", "sublease", "instance", "fiber")
Shown = dict[str, list[tuple[Any, ...]]]


def shown(path: Path) -> Shown:
    with closing(Tables(path)) as tables:
        return {name: sorted(tables.rows(name), key=repr) for name in NAMES}


def expected(state: State) -> Shown:
    found = painted(state)
    return {name: found[name] for name in NAMES}


@pytest.mark.parametrize("seed", range(12))
def test_the_tables_are_the_state_after_any_walk(seed: int, tmp_path: Path) -> None:
    pair = Pair()
    path = tmp_path / "t.db"
    tables = Tables(path)
    for part in range(3):
        pair.wander(Random(seed * 10 + part), 60)
        tables.follow(pair.desk.journal)
        assert tables.watermark() == pair.desk.authority.head.seq
        assert faults(tables, pair.desk.authority.state, tables.watermark()) == []
    assert tables.follow(pair.desk.journal) == 0
    anew = Tables(tmp_path / "anew.db")
    anew.follow(pair.desk.journal)
    assert hung(anew) == hung(tables), "a rebuild from nothing gives the same"


def test_the_tables_are_the_state_after_any_history_of_specs(tmp_path: Path) -> None:
    seen: dict[str, set[str]] = {"chain_spec": set(), "job": set()}
    held = dict.fromkeys(("spec_lease", "dispatch_lease"), 0)
    for seed in range(5):
        desk, tables = Desk(), Tables(tmp_path / f"{seed}.db")
        chain = Chain(desk, Random(seed))
        for part in range(10):
            chain.wander(20)
            tables.follow(desk.journal, part)
            tables.follow(desk.journal)
            assert faults(tables, desk.authority.state, desk.authority.head.seq) == []
            for name, places in (("chain_spec", 2), ("job", 4)):
                seen[name] |= {row[places] for row in tables.rows(name)}
            for name in held:
                held[name] += len(tables.rows(name))
    assert seen["chain_spec"] == {"pending", "in_progress", "materialized"}
    assert seen["job"] == {"pending", "dispatched", "claimed", "completed"}
    assert all(held.values())


def test_a_step_has_one_job_and_the_table_says_so(tmp_path: Path) -> None:
    desk, path = Desk(), tmp_path / "t.db"
    Chain(desk, Random(1)).wander(80)
    with closing(Tables(path)) as tables:
        tables.follow(desk.journal)
        query, cells = next(statements(JobPut(_double(desk.authority.state))))
        with pytest.raises(apsw.ConstraintError, match="spec_id, "):
            tables._db.execute(query, cells)


def _double(state: State) -> JobRecord:
    job = next(each for each in state.lane.jobs.values() if each.spec_id)
    return replace(job, job_id="another")


def test_jobs_of_no_spec_are_many(tmp_path: Path) -> None:
    desk, tables = Desk(), Tables(tmp_path / "t.db")
    for name in "abc":
        desk.grant("job.schedule", "cli", jobId=name, kind="k")
    tables.follow(desk.journal)
    assert faults(tables, desk.authority.state, 3) == []


def test_an_issue_shows_every_column(tmp_path: Path) -> None:
    desk, path = Desk(), tmp_path / "t.db"
    record = {
        "id": "a", "title": "t", "created_at": MOMENT, "updated_at": MOMENT, "ephemeral": True,
        "labels": ["x", "y"], "metadata": '{"k":1}', "mol_type": "m", "closed_at": MOMENT,
    }  # fmt: skip
    desk.grant("issue.import", "cli", records=[record])
    desk.grant("issue.update", id="a", labels=["z"], notes="n")
    Tables(path).follow(desk.journal)
    assert shown(path) == expected(desk.authority.state)
    columns = {name for name, _ in ISSUE.columns}
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
    assert shown(path) == expected(desk.authority.state)


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
    assert shown(path) == expected(desk.authority.state)


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
    assert shown(path) == expected(desk.authority.state), "what ran is orphaned"


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
    assert shown(path) == expected(desk.authority.state)


def test_tables_of_another_version_are_made_anew(tmp_path: Path) -> None:
    desk, path = Desk(), tmp_path / "t.db"
    desk.grant("issue.add", id="a", title="t")
    with apsw.Connection(str(path)) as db:  # as the first version had them
        db.execute("CREATE TABLE watermark (only INTEGER PRIMARY KEY, seq INTEGER)")
        db.execute("INSERT INTO watermark VALUES (1, 7); CREATE TABLE issue (id TEXT)")
    tables = Tables(path)
    assert tables.watermark() == 0
    tables.follow(desk.journal)
    assert faults(tables, desk.authority.state, 1) == []
    tables.clear()
    assert (tables.watermark(), tables.rows("issue")) == (0, [])


def test_two_that_follow_at_once_show_every_row_once(tmp_path: Path) -> None:
    desk, path = Desk(), tmp_path / "t.db"
    for number in range(300):
        desk.grant("issue.add", id=f"i{number}", title="t")
    with ThreadPoolExecutor(4) as crew:
        each = [crew.submit(_follow, path, desk.journal) for _ in range(4)]
        assert sum(one.result() for one in each) == 300
    assert faults(Tables(path), desk.authority.state, 300) == []


def _follow(path: Path, journal: Journal) -> int:
    with closing(Tables(path)) as tables:
        count = 0
        while taken := tables.follow(journal, 10):
            count += taken
        return count


def test_a_dependency_that_stands_twice_in_a_record_is_refused() -> None:
    """The state would keep both, and the table one."""
    links = [{"depends_on_id": "b", "created_by": who} for who in ("ann", "bob")]
    record = {"id": "a", "title": "t", "created_at": MOMENT, "updated_at": MOMENT}
    found = Desk().refusal("issue.import", "cli", records=[record | {"dependencies": links}])
    assert found == "issue_invalid_payload"
