"""The pins: no published byte changes unseen, and one command seals a deliberate change."""

import shutil
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from understudy.contracts import documents
from understudy.contracts.registry.pins import digests, main, pin_findings, seal
from understudy.contracts.retry import RetryPolicy, load_policy

PUBLISHED = sorted(digests())


@pytest.fixture
def room(tmp_path: Path) -> Path:
    for folder in ("data", "schemas"):
        shutil.copytree(documents.ROOT / folder, tmp_path / folder)
    return tmp_path


def found(room: Path) -> list[str]:
    findings = pin_findings(room)
    assert {finding.failure_class for finding in findings} <= {"contract_pin_mismatch"}
    return [finding.path for finding in findings]


def test_the_published_files_are_as_pinned() -> None:
    assert pin_findings() == []


def test_every_file_but_the_pins_is_pinned() -> None:
    files = [*documents.ROOT.glob("data/*"), *documents.ROOT.glob("schemas/*")]
    names = {path.relative_to(documents.ROOT).as_posix() for path in files}
    assert names - {documents.PINS} == set(documents.load(documents.PINS)["files"])


@pytest.mark.parametrize("name", PUBLISHED)
def test_one_changed_byte_is_seen(room: Path, name: str) -> None:
    data = (room / name).read_bytes()
    (room / name).write_bytes(data[:-1] + b" ")
    assert found(room) == [name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_file_that_is_gone_is_seen(room: Path, name: str) -> None:
    (room / name).unlink()
    assert found(room) == [name]


@pytest.mark.parametrize("name", ["data/extra.json", "schemas/extra.schema.json"])
def test_a_file_that_came_is_seen(room: Path, name: str) -> None:
    (room / name).write_text("{}")
    assert found(room) == [name]


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"7", b"{}", b'{"pinsKind":"understudy.contract_pins.v1"}',
             b'{"pinsKind":"understudy.contract_pins.v1","files":[]}']
)  # fmt: skip
def test_pins_that_are_no_pins_are_refused(room: Path, data: bytes) -> None:
    (room / documents.PINS).write_bytes(data)
    assert found(room) == [documents.PINS]


def test_pins_that_are_gone_are_refused(room: Path) -> None:
    (room / documents.PINS).unlink()
    assert found(room) == [documents.PINS]


def test_pins_that_pin_nothing_are_refused(room: Path) -> None:
    pins = {"pinsKind": "understudy.contract_pins.v1", "files": {}}
    (room / documents.PINS).write_bytes(orjson.dumps(pins))
    assert found(room) == PUBLISHED


def test_sealing_what_is_sealed_changes_no_byte(room: Path) -> None:
    before = {path: path.read_bytes() for path in room.rglob("*.json")}
    seal(room)
    assert {path: path.read_bytes() for path in room.rglob("*.json")} == before


def test_sealing_a_changed_policy_binds_the_contract_to_it(room: Path) -> None:
    path = room / documents.RETRY_POLICY
    text = path.read_text()
    path.write_text(text.replace('"maxAttempts": 6', '"maxAttempts": 7'))
    assert path.read_text() != text
    seal(room)
    policy = load_policy(path)
    assert isinstance(policy, RetryPolicy)
    contract = documents.load(documents.CONTRACT, room)
    assert contract["harnessRetry"]["policyDigest"] == policy.policy_digest
    assert found(room) == []


def test_the_command_compares_and_writes(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], room) == 0
    path = room / documents.CONTRACT
    path.write_bytes(path.read_bytes() + b"\n")
    assert main([], room) == 9
    assert documents.CONTRACT in capsys.readouterr().err
    assert main(["--write"], room) == 0
    assert main([], room) == 0
    assert main(["--help"], room) == 2
    assert "usage" in capsys.readouterr().err


def test_the_command_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "understudy.contracts"]
    assert subprocess.run(command, check=False).returncode == 0
