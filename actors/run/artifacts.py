"""What a command produced, as it says itself: one artefact on every line of a file.

A command that works on a job finds the file's name in UNDERSTUDY_ARTIFACTS and adds lines to it,
each the JSON object of one artefact (`artifactId`, `artifactType`, ...). It goes with the job's
completion. A snapshot of an inference may leave out `artifactId` and `sourceJob`, which follow from
the rest and from the job.

A file that is missing or empty says that there are none. Whatever is wrong with it is said with
the number of the line, and nothing of it counts then.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from ...contracts import SNAPSHOT_TYPE, Artifact, canonical, limits, regular_file, snapshot_id

VARIABLE: Final = "UNDERSTUDY_ARTIFACTS"

_UNNAMED = "-"  # stands for an id until it is known


class ArtifactsInvalid(ValueError):
    """The file is not what it should be; the message says where, why, and what to do."""


@contextmanager
def artifacts_file() -> Iterator[Path]:
    """A name for the file of one attempt, in a folder of its own, which is removed afterwards."""
    folder = tempfile.mkdtemp(prefix="understudy-")
    try:
        yield Path(folder) / "artifacts.jsonl"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read_artifacts(path: Path, job_id: str) -> tuple[Artifact, ...]:
    """The artefacts that a command left for a job; raise `ArtifactsInvalid` for anything else."""
    found: list[Artifact] = []
    for number, line in enumerate(_content(path).split(b"\n"), 1):
        if not line.strip():
            continue
        if len(found) == limits.ARTIFACTS_MAX:
            raise ArtifactsInvalid(
                f"line {number} of {VARIABLE}: more than {limits.ARTIFACTS_MAX} artefacts; "
                "bundle them under one"
            )
        try:
            found.append(_artifact(line, job_id))
        except ValueError as error:
            raise ArtifactsInvalid(f"line {number} of {VARIABLE}: {error}") from None
    return tuple(found)


def members(artifacts: Sequence[Artifact]) -> list[dict[str, Any]]:
    """Artefacts as a request names them, without what they leave out."""
    plain: list[dict[str, Any]] = msgspec.to_builtins(artifacts)
    return [{name: value for name, value in each.items() if value is not None} for each in plain]


def _artifact(line: bytes, job_id: str) -> Artifact:
    value = canonical.decode(line)
    if not isinstance(value, dict):
        raise ValueError("it is not an object")  # noqa: TRY004 - what it says is wrong
    snapshot = value.get("artifactType") == SNAPSHOT_TYPE
    if snapshot:
        value = {"artifactId": _UNNAMED, "sourceJob": job_id} | value
    artifact = msgspec.convert(value, Artifact)
    return _snapshot(artifact, job_id) if snapshot else artifact


def _snapshot(artifact: Artifact, job_id: str) -> Artifact:
    """With the id that follows from it. What the authority would refuse is refused here first."""
    if artifact.source_job != job_id:
        raise ValueError(f"`sourceJob` is not this job, {job_id}; leave it out")
    for name in ("model_id", "prompt_digest", "output_digest"):
        if not getattr(artifact, name):
            wire = msgspec.structs.fields(Artifact)
            said = next(each.encode_name for each in wire if each.name == name)
            raise ValueError(f"a snapshot needs `{said}`")
    named = snapshot_id(artifact)
    if artifact.artifact_id not in (_UNNAMED, named):
        raise ValueError(f"`artifactId` is not {named}, which follows from the rest; leave it out")
    return msgspec.structs.replace(artifact, artifact_id=named)


def _content(path: Path) -> bytes:
    try:
        return regular_file.read(path, limits.REQUEST_BYTES_MAX)  # they travel in one request
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ArtifactsInvalid(f"the file of {VARIABLE}, {path}: {error.strerror}") from None
