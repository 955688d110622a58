"""Specs at the command line: written by people, worked off, and taken over elsewhere."""

from pathlib import Path
from typing import Any

import click
import pytest

from tests.together import together
from understudy.contracts import limits
from understudy.surfaces.cli.spec_file import read_spec

from .conftest import Run

NIGHTLY = """\
# What runs every night.
specId: nightly
title: Build and test
steps:
  - stepKey: root
    kind: ci.build
    inputs: &same {ref: main, depth: 1, quoted: "no", nothing: null, flag: true}
  - stepKey: "step:2:call_llm"
    kind: ci.test
    dependsOn: [root]
    inputs: *same
"""
HEAD = "specId: x\nsteps:\n  - stepKey: a\n    kind: k\n"


def test_a_spec_is_written_worked_off_and_seen(call: Run, tmp_path: Path) -> None:
    (tmp_path / "nightly.yaml").write_text(NIGHTLY)
    for _ in range(2):
        said = call("spec", "submit", "nightly.yaml")
        assert said.out == "nightly  pending  0/2 jobs  Build and test\n"
    lease = call("spec", "claim", "nightly", "--runner", "r", "--json").json["spec"]["lease"]
    held = ("--runner", "r", "--lease-id", lease["leaseId"], "--fence", lease["fence"])
    made = call("spec", "materialize", "nightly", "step:2:call_llm", "root", *held)
    assert made.out.splitlines()[-1] == "nightly  materialized  2/2 jobs  Build and test"
    assert call("spec", "release", "nightly", *held).code == 5
    shown = call("spec", "status", "nightly").out.splitlines()
    assert shown[1:] == [
        "  1 pending, 1 waiting",
        "  root             pending  ci.build",
        "  step:2:call_llm  waiting  ci.test  after root",
    ]
    inputs = call("job", "show", "nightly:root", "--json").json["job"]["payload"]["inputs"]
    assert inputs == {"ref": "main", "depth": 1, "quoted": "no", "nothing": None, "flag": True}
    assert call("spec", "status").out == "nightly  materialized  2/2 jobs  Build and test\n"
    assert call("spec", "list").out == "nothing\n"
    assert call("spec", "status", "nowhere").code == 3
    assert call("spec", "submit", "nightly.yaml", "--id", "other").code == 0
    assert call("spec", "submit", "missing.yaml").code == 2


def test_a_log_with_specs_is_taken_over(call: Run, bare: Run, tmp_path: Path) -> None:
    log, there = tmp_path / "log.jsonl", tmp_path / "there"
    (tmp_path / "nightly.yaml").write_text(NIGHTLY)
    steps = "".join(f"  - {{stepKey: s{place}, kind: k}}\n" for place in range(70))
    (tmp_path / "many.yaml").write_text("specId: many\nsteps:\n" + steps)
    for name in ("nightly", "many"):
        assert call("spec", "submit", f"{name}.yaml").code == 0
        lease = call("spec", "claim", name, "--runner", "r", "--json").json["spec"]["lease"]
        held = ("--runner", "r", "--lease-id", lease["leaseId"], "--fence", lease["fence"])
        keys = ["root"] if name == "nightly" else [f"s{place}" for place in range(70)]
        for at in range(0, len(keys), limits.SPEC_BATCH_MAX):
            part = keys[at : at + limits.SPEC_BATCH_MAX]
            assert call("spec", "materialize", name, *part, *held).code == 0
    lease = call("job", "claim", "nightly:root", "--worker", "w", "--json").json["job"]["lease"]
    held = ("--worker", "w", "--lease-id", lease["leaseId"], "--fence", lease["fence"])
    assert call("job", "complete", "nightly:root", *held).code == 0
    assert call("job", "log", "export", log).code == 0
    log.write_bytes(b"\n".join(reversed(log.read_bytes().splitlines())))

    assert bare("init", "--state-dir", there).code == 0
    taken = bare("job", "log", "import", log, "--state-dir", there)
    assert (taken.out, taken.err) == ("scheduled 71, completed 1, routed 0, submitted 2\n", "")
    again = bare("job", "log", "import", log, "--state-dir", there)
    assert again.out == "scheduled 0, completed 0, routed 0\n"
    specs = bare("spec", "list", "--query", "all", "--state-dir", there, "--json").json["specs"]
    assert {each["specId"]: each["state"] for each in specs} == {
        "nightly": "in_progress",
        "many": "materialized",
    }
    assert not any("lease" in each for each in specs), "leases do not travel, nor stay behind"
    shown = bare("spec", "status", "nightly", "--state-dir", there, "--json").json["spec"]
    assert [each.get("state") for each in shown["steps"]] == ["completed", None]
    for command in ("replay", "verify", "doctor"):
        assert bare(command, "--state-dir", there).code == 0


def test_jobs_of_a_spec_that_the_log_lacks_are_left_out(
    call: Run, bare: Run, tmp_path: Path
) -> None:
    log, there = tmp_path / "log.jsonl", tmp_path / "there"
    (tmp_path / "n.yaml").write_text(HEAD)
    assert call("spec", "submit", "n.yaml").code == 0
    lease = call("spec", "claim", "x", "--runner", "r", "--json").json["spec"]["lease"]
    held = ("--runner", "r", "--lease-id", lease["leaseId"], "--fence", lease["fence"])
    assert call("spec", "materialize", "x", "a", *held).code == 0
    assert call("job", "log", "export", log).code == 0
    log.write_bytes(b"\n".join(log.read_bytes().splitlines()[1:]))
    assert bare("init", "--state-dir", there).code == 0
    taken = bare("job", "log", "import", log, "--state-dir", there)
    assert taken.out == "scheduled 0, completed 0, routed 0\n"
    assert taken.err.startswith("left out: spec x: ")


@together(
    ("text", "problem"),
    [
        ("inputs: {a: no}", "f.yaml, line 5, step a: inputs.a: `no` is true or false to YAML"),
        ("inputs: {a: On}", "`On` is true or false"),
        ("inputs: {on: 1}", "line 5, step a: inputs: the key `on` is not read as text"),
        ("inputs: {1: 1}", "the key `1` is not read as text"),
        ("inputs: {ä: 1}", "is not plain ASCII"),
        ("inputs: {a: 0.5}", "'0.5' is a number that is no integer; write an integer, or put"),
        ("inputs: {a: 1e3}", ""),
        ("inputs: {a: .inf}", "is a number that is no integer"),
        ("inputs: {a: 017}", "'017' is a number in another notation"),
        ("inputs: {a: 1:30}", "'1:30' is a number in another notation"),
        ("inputs: {a: 2026-01-01}", "is a moment"),
        ("inputs: {a: 9007199254740992}", "is beyond 2^53 - 1"),
        ("inputs: {a: !!binary aGk=}", "tag:yaml.org,2002:binary"),
        ("inputs: {a: !!python/name:os.system x}", "python/name:os.system"),
        ("inputs: {<<: {b: 1}}", "the key `<<` is not read as text"),
        ("inputs: {a: 1, b: 2, a: 3}", "line 5, step a: inputs: the key `a` comes twice"),
        ("inputs: &x {a: *x}", "nested deeper than 32"),
        ("inputs: [a]", "f.yaml, line 5, step a: inputs: Expected `object`, got `array`"),
        ("knd: k", "f.yaml, line 3, step a: Object contains unknown field `knd`"),
        ("dependsOn: [b, 3]", "step a: dependsOn.1: Expected `str`, got `int`"),
        ("  kind: k", "f.yaml, line 5: "),
        ("inputs: {a: *none}", "f.yaml, line 5: found undefined alias"),
        ("---", "f.yaml, line 5: "),
        ("inputs: " + "[" * 40, "nested deeper than 32"),
        ('inputs: {a: "\\0"}', "tag:yaml.org,2002:str"),
    ],
)
def test_what_yaml_guesses_is_refused_by_line_and_step(text: str, problem: str) -> None:
    document = f"{HEAD}    {text}\n" if text != "---" else f"{HEAD}---\na: 1\n"
    if not problem:  # what YAML 1.1 takes for text is text
        read = read_spec(document.encode(), "f.yaml", {})
        assert read["steps"][0]["inputs"] == {"a": "1e3"}
        return
    with pytest.raises(click.UsageError) as caught:
        read_spec(document.encode(), "f.yaml", {})
    assert problem in caught.value.message


@together(
    ("name", "text", "problem"),
    [
        ("f.json", b'{"specId": "x", "specId": "y"}', "f.json: an object names the same key twice"),
        ("f.json", b'{"specId": "x"', "f.json: not JSON"),
        ("f.json", b"specId: x", "f.json: not JSON"),
        ("-", b'{"specId":"x","steps":[{"stepKey":"a","kind":"k","inputs":{"a":1.5}}]}',
         "-, step a: a number is not an integer"),
        ("-", b'{"specId":"x","steps":[{"kind":"k"}]}',
         "-, the step at place 1: Object missing required field `stepKey`"),
        ("-", b'{"specId":3,"steps":[]}', "-: specId: Expected `str`, got `int`"),
        ("f.yaml", b"", "there is nothing in it"),
        ("f.yaml", b"- a", "this is no mapping"),
        ("f.yaml", b"a: \xff", "neither YAML nor JSON"),
        ("f.yaml", b"a: \x00", "neither YAML nor JSON"),
        ("f.yaml", b"specId: x\nsteps: []\n", "f.yaml, line 2: steps: Expected `array` of length"),
    ],
)  # fmt: skip
def test_what_is_no_spec_is_a_usage_error(name: str, text: bytes, problem: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        read_spec(text, name, {})
    assert problem in caught.value.message


def test_aliases_count_as_often_as_they_are_used() -> None:
    rows = ["    inputs:", "      a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    rows += [
        f"      a{place}: &a{place} [" + ", ".join([f"*a{place - 1}"] * 10) + "]"
        for place in range(1, 9)
    ]
    with pytest.raises(click.UsageError, match="with its aliases written out"):
        read_spec((HEAD + "\n".join(rows)).encode(), "f.yaml", {})


def test_yaml_and_json_say_the_same() -> None:
    said: dict[str, Any] = read_spec(NIGHTLY.encode(), "f.yaml", {"specId": "other"})
    assert said["specId"] == "other"
    text = b'{"specId":"x","steps":[{"stepKey":"a","kind":"k","inputs":{"a":"\\ud83d\\ude00"}}]}'
    read = read_spec(text, "-", {})
    assert read["steps"][0]["inputs"]["a"] == "\N{GRINNING FACE}"
    assert read_spec(b"{specId: x, steps: [{stepKey: a, kind: k}]}", "-", {})["specId"] == "x"
