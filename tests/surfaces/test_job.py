"""Jobs at the command line: a chain of them, a log that travels, and a zombie that is refused."""

from pathlib import Path

import orjson
import pytest

from .conftest import Run


def test_a_chain_of_jobs_is_worked_off_in_order(call: Run) -> None:
    assert call("job", "schedule", "build", "--kind", "ci.build").code == 0
    assert "waiting" in call("job", "schedule", "test", "--kind", "ci.test", "--after", "build").out
    assert call("job", "claim", "test", "--worker", "w").code == 5
    lease = call("job", "claim", "build", "--worker", "w", "--json").json["job"]["lease"]
    held = ("--worker", "w", "--lease-id", lease["leaseId"], "--fence", lease["fence"])
    assert call("job", "complete", "build", *held).out == "completed build; free now: test\n"
    assert call("job", "roster", "--worker", "w").out.startswith("test  pending")
    assert call("job", "complete", "build", *held).code == 5
    assert "ci.test" in call("job", "show", "test").out


def test_a_holder_without_its_fence_is_refused(call: Run) -> None:
    call("job", "schedule", "a", "--kind", "k")
    lease = call("job", "claim", "a", "--worker", "w", "--json").json["job"]["lease"]
    assert call("job", "yield", "a", "--worker", "w", "--lease-id", lease["leaseId"]).code == 6
    assert call("job", "claim", "a", "--worker", "w").code == 6
    more = call("job", "claim", "a", "--worker", "w", "--fence", lease["fence"], "--json")
    assert more.json["job"]["lease"]["renewals"] == 1
    expired = call("job", "expire", "a", "--worker", "v", "--claim", lease["claim"], "--fence", 2)
    assert "claimed" in expired.out, "the claim was renewed, and its name is another"


def test_a_node_is_registered_for_some_kinds(call: Run) -> None:
    assert call("job", "schedule", "a", "--kind", "ci.build").code == 0
    assert call("job", "schedule", "b", "--kind", "gpu.train").code == 0
    claims = ("--may", "job.claim")
    said = call("node", "register", "w", *claims, "--kinds", "ci.*", "--kinds", "doc")
    assert said.out == "w  job.claim  only ci., doc\n"
    assert call("job", "roster", "--worker", "w").out == "a  pending  ci.build\n"
    refused = call("job", "claim", "b", "--worker", "w")
    assert (refused.code, "job_kind_not_permitted" in refused.err) == (4, True)
    assert call("job", "claim", "a", "--worker", "w").code == 0


def test_what_is_no_json_is_a_usage_error(call: Run, tmp_path: Path) -> None:
    for payload in ("{", "[]"):
        assert call("job", "schedule", "a", "--kind", "k", "--payload", payload).code == 2
    (tmp_path / "log.jsonl").write_bytes(b'{"op_id":1}\n')
    assert call("job", "log", "fold", tmp_path / "log.jsonl").code == 2


def test_a_log_is_taken_over_by_another_authority(call: Run, bare: Run, tmp_path: Path) -> None:
    log, there = tmp_path / "log.jsonl", tmp_path / "there"
    for job_id, before in (("a", []), ("b", ["a"]), ("c", ["b"]), ("d", [])):
        after = [word for each in before for word in ("--after", each)]
        assert call("job", "schedule", job_id, "--kind", "k.x", *after).code == 0
    artifact = {"artifactId": "x", "artifactType": "t"}
    for job_id in ("a", "b"):
        lease = call("job", "claim", job_id, "--worker", "w", "--json").json["job"]["lease"]
        held = ("--worker", "w", "--lease-id", lease["leaseId"], "--fence", lease["fence"])
        done = call("job", "complete", job_id, *held, "--artifact", orjson.dumps(artifact).decode())
        assert done.code == 0
    assert call("job", "claim", "d", "--worker", "w").code == 0
    assert call("route", "set", "gpu.", "--to", "server").code == 0
    assert call("job", "log", "export", log).code == 0
    log.write_bytes(b"\n".join(reversed(log.read_bytes().splitlines())))

    assert bare("init", "--state-dir", there).code == 0
    taken = bare("job", "log", "import", log, "--state-dir", there)
    assert (taken.out, taken.err) == ("scheduled 4, completed 2, routed 1\n", "")
    again = bare("job", "log", "import", log, "--state-dir", there)
    assert again.out == "scheduled 0, completed 0, routed 0\n"
    roster = bare("job", "roster", "--state-dir", there, "--json").json
    assert [each["jobId"] for each in roster["jobs"]] == ["c", "d"], "leases do not travel"
    shown = bare("job", "show", "b", "--state-dir", there, "--json").json["job"]
    assert (shown["state"], shown["artifacts"]) == ("completed", [artifact])
    for command in ("replay", "verify"):
        assert bare(command, "--state-dir", there).code == 0


def test_a_log_is_taken_over_with_its_nodes(call: Run, bare: Run, tmp_path: Path) -> None:
    log, there = tmp_path / "log.jsonl", tmp_path / "there"
    assert call("node", "register", "w", "--may", "job.claim").code == 0
    claims = ("--may", "job.claim", "--may", "job.complete")
    key = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
    assert call("node", "register", "w", *claims, "--kinds", "ci.", "--public-key", key).code == 0
    assert call("node", "register", "v", *claims).code == 0
    assert call("coordinator", "designate", "v").code == 0
    assert call("job", "schedule", "a", "--kind", "ci.x").code == 0
    for at, ms in ((0, 30_000), (0, 60_000)):  # two claims under one stamp
        stamp = {"wallMs": 1_000 + at, "counter": 0, "node": "v"}
        claim = {"kind": "ClaimWork", "author": "v", "stamp": stamp,
                 "payload": {"jobId": "a", "leaseDurationMs": ms}}  # fmt: skip
        (tmp_path / "batch.jsonl").write_bytes(orjson.dumps(claim))
        assert call("job", "admit", tmp_path / "batch.jsonl").code == 0
    assert call("job", "log", "export", log).code == 0

    assert bare("init", "--state-dir", there).code == 0
    words = ("job", "log", "import", log, "--state-dir", there)
    assert bare(*words).out == "scheduled 1, completed 0, routed 0\n"
    taken = bare(*words, "--with-nodes")
    said = "scheduled 0, completed 0, routed 0, registered 2, designated v\n"
    assert (taken.out, taken.err) == (said, "")
    again = bare(*words, "--with-nodes").out
    assert again == "scheduled 0, completed 0, routed 0, registered 0\n"
    taking = ("job", "claim", "a", "--state-dir", there, "--worker")
    assert "operation_signature_missing" in bare(*taking, "w").err
    assert "job_node_quarantined" in bare(*taking, "v").err
    assert "job_node_unknown" in bare(*taking, "u").err
    shown = bare("job", "roster", "--state-dir", there, "--json").json
    assert shown["coordinator"]["node"] == "v"


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("ScheduleJob", {}, "line 2: Object missing required field `jobId`"),
        ("ClaimWork", {"jobId": "a", "worker": "w", "fence": "1"}, "line 2: Expected `int`"),
        ("CompleteJob", {"jobId": "a", "artifacts": [1]}, "line 2: Expected `object`"),
        ("SubmitSpec", {"specId": 7, "steps": []}, "line 2: Expected `str`"),
        ("RouteKind", {}, "line 2: Object missing required field `kind`"),
        ("PourTea", {}, "line 2: unknown kind 'PourTea'"),
    ],
)
def test_a_log_with_operations_that_no_node_can_have_written_is_refused(
    call: Run, tmp_path: Path, kind: str, body: dict[str, object], said: str
) -> None:
    stamp = {"wallMs": 1, "counter": 0, "node": "n"}
    line = {"op_id": "x", "kind": kind, "author": "n", "stamp": stamp, "body": body}
    (tmp_path / "log").write_bytes(b"\n" + orjson.dumps(line))
    for command in ("fold", "import"):
        done = call("job", "log", command, tmp_path / "log")
        assert done.code == 2
        assert said in done.err
