"""A folder is marked where the file system has marks, and is a folder as before everywhere."""

from pathlib import Path

from understudy.actors.descent.placement import spread


def test_a_marked_folder_is_used_as_before(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    spread(folder)
    spread(folder)
    (folder / "below").mkdir()
    (folder / "below" / "file").write_text("x")
    assert [path.name for path in folder.iterdir()] == ["below"]


def test_what_cannot_be_marked_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    spread(tmp_path / "file")
    spread(tmp_path / "missing")
    assert (tmp_path / "file").read_text() == "x"
