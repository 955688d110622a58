"""The file in which a command says what it has produced."""

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from understudy.actors.run import artifacts
from understudy.contracts import SNAPSHOT_TYPE, Artifact, limits
from understudy.contracts.records.job import snapshot_id

PLAIN = {"artifactId": "sha256:1", "artifactType": "ci.wheel"}
SNAPSHOT = {
    "artifactType": SNAPSHOT_TYPE,
    "modelId": "m",
    "promptDigest": "p",
    "outputDigest": "o",
}
NAMED = snapshot_id(
    Artifact(
        artifact_id="?",
        artifact_type=SNAPSHOT_TYPE,
        source_job="j",
        model_id="m",
        prompt_digest="p",
        output_digest="o",
    )
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "artifacts.jsonl"


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def test_artefacts_are_read_in_their_order(path: Path) -> None:
    found = artifacts.read_artifacts(written(path, PLAIN, PLAIN | {"modelId": "m"}), "j")
    assert artifacts.members(found) == [PLAIN, PLAIN | {"modelId": "m"}]


@pytest.mark.parametrize("content", [None, b"", b"\n \n"], ids=["missing", "empty", "blank"])
def test_no_file_says_that_there_are_none(path: Path, content: bytes | None) -> None:
    if content is not None:
        path.write_bytes(content)
    assert artifacts.read_artifacts(path, "j") == ()


@pytest.mark.parametrize("said", [{}, {"artifactId": NAMED}, {"sourceJob": "j"}], ids=str)
def test_a_snapshot_has_the_id_that_follows_from_it(path: Path, said: dict[str, str]) -> None:
    (found,) = artifacts.read_artifacts(written(path, SNAPSHOT | said), "j")
    assert (found.artifact_id, found.source_job) == (NAMED, "j")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"artifactId": "a"}, "artifactType"),
        ({"artifactType": "a"}, "artifactId"),
        (PLAIN | {"weight": 1}, "weight"),
        (PLAIN | {"modelId": 1}, "str"),
        (PLAIN | {"artifactId": ""}, "length"),
        (PLAIN | {"artifactId": "a" * (limits.NAME_LENGTH_MAX + 1)}, "length"),
        (SNAPSHOT | {"modelId": ""}, "modelId"),
        (SNAPSHOT | {"promptDigest": None}, "promptDigest"),
        (SNAPSHOT | {"sourceJob": "other"}, "sourceJob"),
        (SNAPSHOT | {"artifactId": "mine"}, NAMED),
    ],
    ids=lambda each: str(each)[:40],
)
def test_what_is_wrong_is_said_with_its_line(path: Path, row: dict[str, Any], words: str) -> None:
    with pytest.raises(artifacts.ArtifactsInvalid, match=words) as caught:
        artifacts.read_artifacts(written(path, PLAIN, row), "j")
    assert str(caught.value).startswith("line 2 of UNDERSTUDY_ARTIFACTS: ")


@pytest.mark.parametrize(
    "content", [b"[]", b"{", b'"x"', b'{"artifactId":"a","artifactId":"b"}', b"\xff", b"{}" * 2]
)
def test_lines_that_are_no_objects_are_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(artifacts.ArtifactsInvalid, match="line 1"):
        artifacts.read_artifacts(path, "j")


def test_the_most_artefacts_are_read_and_one_more_is_not(path: Path) -> None:
    rows = [PLAIN] * limits.ARTIFACTS_MAX
    assert len(artifacts.read_artifacts(written(path, *rows), "j")) == limits.ARTIFACTS_MAX
    with pytest.raises(artifacts.ArtifactsInvalid, match="more than 64"):
        artifacts.read_artifacts(written(path, *rows, PLAIN), "j")


def test_a_file_is_read_to_its_last_byte_and_no_further(path: Path) -> None:
    row = orjson.dumps(PLAIN)
    path.write_bytes(row + b"\n" * (limits.REQUEST_BYTES_MAX - len(row)))
    assert len(artifacts.read_artifacts(path, "j")) == 1
    path.write_bytes(row + b"\n" * (limits.REQUEST_BYTES_MAX - len(row) + 1))
    with pytest.raises(artifacts.ArtifactsInvalid, match="bytes"):
        artifacts.read_artifacts(path, "j")


def test_what_is_no_file_holds_nothing_up(path: Path, tmp_path: Path) -> None:
    os.mkfifo(path)
    for odd in (path, tmp_path, path / "below", Path("/dev/zero")):
        with pytest.raises(artifacts.ArtifactsInvalid, match="UNDERSTUDY_ARTIFACTS"):
            artifacts.read_artifacts(odd, "j")


def test_each_attempt_has_a_file_of_its_own_and_leaves_nothing() -> None:
    with artifacts.artifacts_file() as one, artifacts.artifacts_file() as two:
        assert one != two
        assert not one.exists()
        written(one, PLAIN)
    assert not one.parent.exists()
