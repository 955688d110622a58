"""A file is replaced whole or not at all, and it is on disk before we say so."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from understudy.authority.views.issues_file import write_file


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "issues.jsonl"
    write_file(path, b"one\n")
    write_file(path, b"two\n")
    assert path.read_bytes() == b"two\n"
    assert [*tmp_path.iterdir()] == [path]


def test_nothing_but_nothing_is_written_for_an_empty_export(tmp_path: Path) -> None:
    path = tmp_path / "issues.jsonl"
    write_file(path, b"")
    assert path.read_bytes() == b""


def _fail(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


FAILURES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "on the way to the disk": lambda patch: patch.setattr(os, "fsync", _fail),
    "when it is put in its place": lambda patch: patch.setattr(Path, "replace", _fail),
}


@pytest.mark.parametrize("when", sorted(FAILURES))
def test_the_old_file_stays_when_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    path = tmp_path / "issues.jsonl"
    path.write_bytes(b"old\n")
    FAILURES[when](monkeypatch)
    with pytest.raises(OSError, match="No space"):
        write_file(path, b"new\n")
    assert path.read_bytes() == b"old\n"
    assert [*tmp_path.iterdir()] == [path]


def test_the_old_file_stays_when_the_disk_is_full_halfway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "issues.jsonl"
    path.write_bytes(b"old\n")

    class Full:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def write(self, data: bytes) -> None:
            self.file.write(data[:2])
            _fail()

    opened = Path.open
    monkeypatch.setattr(Path, "open", lambda path, mode: Full(opened(path, mode)))
    with pytest.raises(OSError, match="No space"):
        write_file(path, b"new\n")
    monkeypatch.undo()
    assert path.read_bytes() == b"old\n"
    assert [*tmp_path.iterdir()] == [path]


def test_the_data_is_on_disk_before_the_name_and_the_name_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def noted_fsync(handle: int) -> None:
        done.append("sync folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "sync file")
        fsync(handle)

    def noted_replace(source: Path, target: Path) -> Path:
        done.append("replace")
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    write_file(tmp_path / "issues.jsonl", b"new\n")
    assert done == ["sync file", "replace", "sync folder"]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_file(tmp_path / "nowhere" / "issues.jsonl", b"new\n")
