"""A file that is named is read once, if it is a regular one, and never past its bound."""

import os
from pathlib import Path

import pytest

from understudy.contracts import regular_file
from understudy.contracts.retry import POLICY_IO_ERROR, PolicyRefused, load_policy


def test_a_bound_is_met_and_not_passed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"xxxxx")
    assert regular_file.read(path, 5) == b"xxxxx"
    with pytest.raises(OSError, match="longer than 4 bytes"):
        regular_file.read(path, 4)


def test_what_has_no_end_or_no_writer_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "endless", Path("/dev/null")):
        with pytest.raises(OSError, match="not a regular file"):
            regular_file.read(path, 5)
        refused = load_policy(path)
        assert isinstance(refused, PolicyRefused)
        assert refused.failure_class == POLICY_IO_ERROR


def test_a_link_to_a_regular_file_is_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    assert regular_file.read(tmp_path / "link", 1) == b"x"


def test_no_file_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"xx")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in (tmp_path / "file", tmp_path):
        with pytest.raises(OSError, match=r"regular|longer"):
            regular_file.read(path, 1)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
