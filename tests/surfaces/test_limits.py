"""Limits that a command meets before the authority does."""

from pathlib import Path

import click
import pytest

from tests.limits import stands_on
from understudy.authority.journal.state_dir import create_state_dir
from understudy.contracts import limits
from understudy.contracts.reason import Exit
from understudy.surfaces.cli.main import cli
from understudy.surfaces.cli.options import seconds
from understudy.surfaces.cli.session import run
from understudy.surfaces.mcp.gateway.http import Unguarded, read_token


@stands_on("SETTING_BYTES_MAX")
def test_a_file_with_one_value_has_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(b"secret".ljust(limits.SETTING_BYTES_MAX))
    assert read_token(path, {}) == "secret"
    path.write_bytes(b"secret".ljust(limits.SETTING_BYTES_MAX + 1))
    with pytest.raises(Unguarded, match="longer than"):
        read_token(path, {})


@stands_on("IMPORT_FILE_BYTES_MAX")
def test_an_import_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "issues.jsonl"
    path.write_bytes(b'{"id":"a","title":"b"}\n')
    create_state_dir(tmp_path / "state", "local")
    words = ["import", str(path), "--state-dir", str(tmp_path / "state")]
    monkeypatch.setattr(limits, "IMPORT_FILE_BYTES_MAX", path.stat().st_size - 1)
    assert run(cli, words) == Exit.USAGE
    monkeypatch.setattr(limits, "IMPORT_FILE_BYTES_MAX", path.stat().st_size)
    assert run(cli, words) == Exit.OK


@stands_on("WAIT_SECONDS_MAX")
def test_issue_next_waits_no_longer_than_a_day() -> None:
    span = seconds(most=f"{limits.WAIT_SECONDS_MAX}s")
    assert span.convert("24h", None, None) == limits.WAIT_SECONDS_MAX
    with pytest.raises(click.UsageError, match="longer than"):
        span.convert(str(limits.WAIT_SECONDS_MAX + 1), None, None)
