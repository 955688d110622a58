"""Job files: their names, their bytes, and what happens when they cannot be written."""

import errno
import hashlib
import os
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.actors.specs import job_file_format
from understudy.actors.specs.job_file_format import (
    Failed,
    Late,
    Placed,
    Sheet,
    place,
    sheet,
    spelled,
)

JOB: dict[str, Any] = {
    "jobId": "s1:step:2:call_llm",
    "kind": "llm.call",
    "payload": {"specId": "s1", "stepKey": "step:2:call_llm", "inputs": {"b": 1, "a": "ü"}},
    "causalDeps": ["complete/s1:root", "complete/s1:a:b"],
    "attempts": 3,
    "fence": 17,
    "dispatchLease": {"fence": 99, "leaseId": "dispatch/s1:step:2:call_llm/99", "owner": "one"},
}
IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,256}", fullmatch=True)
FOREVER_MS = 10**15


def early() -> int:
    return 0


def some(*names: str) -> list[Sheet]:
    return [Sheet(name, spelled(name), f"{name}\n".encode(), FOREVER_MS) for name in names]


@given(IDS, IDS)
def test_no_two_jobs_share_a_name(one: str, other: str) -> None:
    assert (spelled(one) == spelled(other)) == (one == other)


@given(IDS)
def test_a_name_fits_a_file_system_and_leads_nowhere(job_id: str) -> None:
    name = spelled(job_id)
    assert len(name) <= 255
    assert not set(name) & set("/\\:\0")
    assert not name.startswith(".")


@pytest.mark.parametrize("bad", ["", "../up", "a/b", ".hidden", "a\0b", "a+b", "x" * 258, "a\n"])
def test_what_is_no_id_gets_no_name(bad: str) -> None:
    with pytest.raises(ValueError, match="is no id of a job"):
        spelled(bad)


def test_long_ids_that_begin_alike_are_told_apart() -> None:
    one, other = "s:" + "x" * 254 + "1", "s:" + "x" * 254 + "2"
    assert spelled(one) != spelled(other)
    assert "a:b" not in spelled("a:b")
    assert spelled("a:b") != spelled("a__b")


def test_the_bytes_are_canonical_and_follow_from_the_job_alone() -> None:
    written = sheet(JOB, 5)
    assert written.data == (
        b'{"dependsOn":["a:b","root"],"inputs":{"a":"\xc3\xbc","b":1},"jobId":"s1:step:2:call_llm",'
        b'"kind":"llm.call","schema":"understudy.job.v1","specId":"s1","stepKey":"step:2:call_llm"}\n'
    )
    lease = JOB["dispatchLease"] | {"fence": 120, "owner": "two"}
    later = JOB | {"attempts": 4, "fence": 18, "dispatchLease": lease}
    assert sheet(later, 6).data == written.data, "whichever dispatcher writes it, and whenever"
    assert written.digest == f"sha256:{hashlib.sha256(written.data).hexdigest()}"


def test_files_are_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "runtime" / "narrative"
    assert place(folder, some("a:1", "a:2"), early) == [Placed(), Placed()]
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == {
        "a+1.json": b"a:1\n",
        "a+2.json": b"a:2\n",
    }


def test_a_file_that_is_there_is_not_touched_and_another_one_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"a\n")
    (tmp_path / "b.json").write_bytes(b"x\n")
    (tmp_path / "c.json").write_bytes(b"longer\n")
    before = (tmp_path / "a.json").stat()
    assert place(tmp_path, some("a", "b", "c"), early) == [Placed()] * 3
    after = (tmp_path / "a.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert [(tmp_path / f"{name}.json").read_bytes() for name in "bc"] == [b"b\n", b"c\n"]


def test_nothing_is_renamed_on_the_tick_of_its_deadline(tmp_path: Path) -> None:
    one = Sheet("a", "a.json", b"a\n", until_ms=100)
    assert place(tmp_path, [one], lambda: 100) == [Late()]
    assert list(tmp_path.iterdir()) == [], "and its temporary file is gone"
    assert place(tmp_path, [one], lambda: 99) == [Placed()]


def test_a_link_in_the_place_of_a_file_is_refused_and_others_are_written(tmp_path: Path) -> None:
    folder, outside = tmp_path / "jobs", tmp_path / "outside"
    folder.mkdir()
    outside.write_bytes(b"precious")
    (folder / "a.json").symlink_to(outside)
    (folder / "b.json").mkdir()
    link, heap, done = place(folder, some("a", "b", "c"), early)
    assert link == Failed("a.json is a symbolic link; move it away", of_folder=False)
    assert heap == Failed("b.json is not a regular file; move it away", of_folder=False)
    assert done == Placed()
    assert outside.read_bytes() == b"precious"


def test_a_folder_that_is_a_link_or_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_bytes(b"")
    (linked,) = place(tmp_path / "link", some("a"), early)
    (blocked,) = place(tmp_path / "file", some("a"), early)
    (below,) = place(tmp_path / "file" / "below", some("a"), early)
    for outcome, word in ((linked, "symbolic link"), (blocked, "move away"), (below, "move away")):
        assert isinstance(outcome, Failed)
        assert outcome.of_folder
        assert word in outcome.detail
    assert list((tmp_path / "real").iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_fails_all_that_are_left_and_leaves_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, opened = os.open, []

    def full(path: str, flags: int, *rest: Any, **options: Any) -> int:
        if str(path).endswith(".tmp"):
            opened.append(path)
            if len(opened) > 1:
                os.close(real(path, flags, *rest, **options))  # it has a name, and no room
                return real("/dev/full", os.O_WRONLY)
        return real(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", full)
    done, *failed = place(tmp_path, some("a", "b", "c"), early)
    assert done == Placed()
    assert len(failed) == 2
    assert failed[0] == failed[1]
    assert isinstance(failed[0], Failed)
    assert failed[0].of_folder
    assert os.strerror(errno.ENOSPC) in failed[0].detail
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_old_temporary_files_are_swept_and_nothing_else(tmp_path: Path) -> None:
    old, young = tmp_path / f".job-{'0' * 16}.tmp", tmp_path / f".job-{'1' * 16}.tmp"
    other = tmp_path / ".other.tmp"
    for each in (old, young, other):
        each.touch()
    long_ago = time.time() - 7_200
    os.utime(old, (long_ago, long_ago))
    os.utime(other, (long_ago, long_ago))
    assert job_file_format.sweep(tmp_path) == 1
    assert sorted(tmp_path.iterdir()) == sorted([young, other])
    assert job_file_format.sweep(tmp_path / "nowhere") == 0


def test_what_is_written_can_be_read_back(tmp_path: Path) -> None:
    place(tmp_path, [sheet(JOB, FOREVER_MS)], early)
    (path,) = tmp_path.iterdir()
    assert orjson.loads(path.read_bytes())["inputs"] == JOB["payload"]["inputs"]
