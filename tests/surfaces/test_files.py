"""Whatever file a command is given, it ends soon, with a text and without a traceback."""

import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.surfaces.conftest import Run, Said
from understudy.actors.run.artifacts import ArtifactsInvalid, read_artifacts
from understudy.contracts import documents, limits
from understudy.contracts.retry import PolicyRefused, RetryPolicy, parse_policy

# Every command that reads a file, with the file in the place of FILE.
READERS = [
    "spec submit FILE", "import FILE", "job admit FILE", "job log fold FILE",
    "job log import FILE", "policy set --checks FILE", "instruction check FILE",
    "instruction run FILE", "required verify FILE", "required decide FILE",
    "required gate-ref lint FILE", "required verify-decision FILE FILE",
    "harness join-check FILE", "check --site-input FILE", "check --operations FILE",
    "check --control-plane-contract FILE",
]  # fmt: skip


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _folder(path: Path) -> None:
    path.mkdir()


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(limits.IMPORT_FILE_BYTES_MAX + 1)


def _gone(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize("make", [_fifo, _endless, _folder, _huge, _gone])
@pytest.mark.parametrize("command", READERS)
def test_what_is_no_file_of_a_bearable_size_is_refused_at_once(
    call: Run, tmp_path: Path, command: str, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "file.json")
    said = _given(call, command, tmp_path / "file.json")
    assert said.code == (1 if make is _gone and command == "import FILE" else 2)
    assert "file.json" in said.err


def _yaml(inputs: str) -> bytes:
    return f"specId: n\nsteps:\n  - stepKey: root\n    kind: k\n    inputs: {inputs}\n".encode()


_DEEP = b"[" * 5000 + b"]" * 5000
CONTENTS = {
    "nothing": b"",
    "a number": b"7",
    "null": b"null",
    "deep": _DEEP,
    "deep member": b'{"specId":' + _DEEP + b"}",
    "deep yaml": b"a: " + _DEEP,
    "digits": b'{"schema": ' + b"9" * 100_000 + b"}",
    "yaml digits": _yaml("{n: " + "9" * 100_000 + "}"),
    "yaml float": _yaml("{n: 1." + "9" * 100_000 + "}"),
    "bomb": b"a: &a [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(
        b"%c: &%c [%b]\n" % (n, n, b",".join([b"*%c" % (n - 1)] * 9)) for n in range(98, 106)
    ),
    "recursive": b"&a {specId: *a}",
    "double keys": b'{"specId": "a", "specId": "b", "steps": []}',
    "double yaml keys": b"specId: a\nspecId: b\n",
    "odd keys": b"? [a, b]\n: c\n? {x: y}\n: z\n",
    "not UTF-8": b'{"specId": "\xff\xfe"}',
    "UTF-16": '{"specId": "n"}'.encode("utf-16"),
    "surrogate": rb'{"specId": "\ud800", "steps": []}',
    "NUL": b'{"specId": "a\\u0000b"}\0',
    "open": b'{"specId": "n',
    "escape": b'specId: "\\U00110000"',
    "tags": b"!!python/object/apply:os.system [x]",
    "many": b"--- a\n--- b\n",
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("command", READERS)
def test_whatever_stands_in_a_file_it_is_a_text_that_says_what_is_wrong(
    call: Run, tmp_path: Path, command: str, content: bytes
) -> None:
    (tmp_path / "file.json").write_bytes(content)
    said = _given(call, command, tmp_path / "file.json")
    assert len(said.err) < 50_000
    if said.code == 0:
        assert command.startswith(("import", "job ")), "only a list may be empty"
        assert content == b""


@pytest.mark.parametrize("content", ["yaml digits", "yaml float", "deep yaml", "bomb"])
def test_a_spec_that_is_wrong_is_told_its_line(call: Run, tmp_path: Path, content: str) -> None:
    (tmp_path / "n.yaml").write_bytes(CONTENTS[content])
    said = call("spec", "submit", tmp_path / "n.yaml")
    assert said.code == 2
    assert "n.yaml, line " in said.err


def test_a_link_to_a_file_is_a_file(call: Run, tmp_path: Path) -> None:
    (tmp_path / "n.yaml").write_bytes(b"specId: n\nsteps: [{stepKey: root, kind: k}]\n")
    (tmp_path / "link.yaml").symlink_to("n.yaml")
    assert call("spec", "submit", tmp_path / "link.yaml").code == 0


@pytest.mark.parametrize("over", [0, 1])
def test_a_spec_fills_a_request_and_no_more(call: Run, tmp_path: Path, over: int) -> None:
    text = b"specId: n\nsteps: [{stepKey: root, kind: k}]\n#"
    (tmp_path / "n.yaml").write_bytes(text.ljust(limits.REQUEST_BYTES_MAX + over, b"x"))
    said = call("spec", "submit", tmp_path / "n.yaml")
    assert (said.code, "longer than" in said.err) == ((0, False), (2, True))[over]


# --- at random ------------------------------------------------------------------------------------

_SEEDS = {
    "spec submit FILE": b"specId: n\ntitle: &t x\nsteps:\n"
    b"  - {stepKey: a, kind: k, inputs: {m: *t}}\n",
    "job log import FILE": b'{"op_id":"x","kind":"ScheduleJob","author":"n","stamp":{"wallMs":1,'
    b'"counter":0,"node":"n"},"body":{"jobId":"a","kind":"k","payload":{}},"causal_deps":["y"]}\n',
    "job admit FILE": b'{"kind":"ClaimWork","author":"bob","stamp":{"wallMs":1,"counter":0,'
    b'"node":"bob"},"payload":{"jobId":"p"}}\n',
    "import FILE": b'{"id":"m","title":"x","dependencies":[{"depends_on_id":"x","type":"b"}]}\n',
}


@pytest.mark.parametrize("command", _SEEDS)
def test_damaged_files_never_end_in_a_traceback(call: Run, tmp_path: Path, command: str) -> None:
    chance = random.Random(14)
    for _ in range(60):
        (tmp_path / "file.json").write_bytes(_damaged(_SEEDS[command], chance))
        assert _given(call, command, tmp_path / "file.json").code in range(10)


def test_damaged_policies_and_artefacts_are_refused_by_value(tmp_path: Path) -> None:
    chance, file = random.Random(14), tmp_path / "artifacts.jsonl"
    policy = (documents.ROOT / documents.RETRY_POLICY).read_bytes()
    artifact = b'{"artifactId":"x","artifactType":"t"}\n'
    for _ in range(300):
        assert isinstance(parse_policy(_damaged(policy, chance)), PolicyRefused | RetryPolicy)
        file.write_bytes(_damaged(artifact, chance))
        with suppress(ArtifactsInvalid):
            read_artifacts(file, "j")
    for content in CONTENTS.values():
        assert isinstance(parse_policy(content), PolicyRefused)


def _damaged(text: bytes, chance: random.Random) -> bytes:
    pieces = [b"[", b"]", b"{", b"}", b'"', b"\xff", b"\0", b"-", b"1e999", b"9" * 5000, b"\\",
              b":", b"\n", b"null", b"*t", b"&t ", _DEEP, b",", b"\xed\xa0\x80"]  # fmt: skip
    data = bytearray(text)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        until = at + chance.choice((0, 0, 1, 3, 20))
        data[at:until] = chance.choice(pieces)
    return bytes(data)


def _given(call: Run, command: str, path: Path) -> Said:
    return call(*(path if word == "FILE" else word for word in command.split()))
