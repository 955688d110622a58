"""`understudy trace`: what was done for work, and what a collector is sent, over real HTTP."""

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.fakes.collector import collecting
from tests.patience import eventually
from tests.surfaces.conftest import Run
from tests.surfaces.process import UNDERSTUDY, Program, report_of, understudy
from understudy.actors.run import otlp


def spans_of(state_dir: Path, *work: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = report_of("trace", *work, "--state-dir", state_dir)["spans"]
    return found


def executed(state_dir: Path, issue: str, *words: str) -> bytes:
    ran = understudy("exec", issue, "--state-dir", state_dir, "--", *words)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def add(state_dir: Path, *names: str) -> None:
    for name in names:
        report_of("issue", "add", f"Mend {name}", "--id", name, "--state-dir", state_dir)


def test_a_command_is_told_the_span_that_its_trace_shows(state_dir: Path) -> None:
    add(state_dir, "a", "b")
    told = executed(state_dir, "a", "sh", "-c", "echo $TRACEPARENT").decode().strip()
    attempt, issue = sorted(spans_of(state_dir, "a"), key=lambda each: each["name"])
    assert told == f"00-{attempt['traceId']}-{attempt['spanId']}-01"
    assert (issue["name"], attempt["parentSpanId"]) == ("issue", issue["spanId"])
    everything = spans_of(state_dir)
    assert len(everything) == 3
    assert all(each in everything for each in (attempt, issue))
    text = understudy("trace", "--state-dir", state_dir).stdout.decode()
    assert f"trace {issue['traceId']}" in text
    assert "Mend a" in text
    assert "completed" in text
    assert "open" in text, "b"


def test_a_nested_command_is_a_part_of_the_inner_work(state_dir: Path) -> None:
    add(state_dir, "a", "b")
    inner = (str(UNDERSTUDY), "exec", "b", "--state-dir", str(state_dir), "--")
    told = executed(state_dir, "a", *inner, "sh", "-c", "echo $TRACEPARENT").decode()
    assert told.split("-")[1] == spans_of(state_dir, "b")[0]["traceId"]


@pytest.mark.parametrize("words", [["nothing"], ["job/nothing"], ["glue/main"]])
def test_work_that_is_not_known_is_not_found(call: Run, words: list[str]) -> None:
    said = call("trace", *words)
    assert said.code == 3
    assert "understudy issue list" in said.err


def test_an_empty_journal_has_no_traces(call: Run) -> None:
    assert call("trace").out == "nothing was done yet\n"
    assert call("trace", "--json").json["spans"] == []


def test_what_was_done_is_sent_as_it_is_shown_and_sent_once(state_dir: Path) -> None:
    add(state_dir, "a", "b")
    executed(state_dir, "a", "true")
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "x-team=blue", "OTEL_SERVICE_NAME": "fleet"}
    with collecting() as collector:
        env = headers | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        sent = understudy("trace", "export", "--state-dir", state_dir, env=env)
        assert (sent.returncode, sent.stdout) == (0, b"2 spans sent, up to row 4\n"), sent.stderr
        shown = {each["spanId"]: each for each in spans_of(state_dir, "a")}
        assert {each["spanId"]: each for each in collector.spans} == shown
        assert collector.services == {"fleet"}
        assert collector.headers[0]["x-team"] == "blue"
        executed(state_dir, "b", "true")
        words = ("trace", "export", "--state-dir", state_dir, "--endpoint", collector.url)
        for _ in range(2):
            assert understudy(*words).returncode == 0
        assert len(collector.spans) == 4
        assert collector.services == {"fleet", "understudy"}
    mode = (state_dir / "run" / "traces.json").stat().st_mode & 0o777
    assert mode == 0o600


def test_a_collector_that_is_away_and_comes_back_has_everything(state_dir: Path) -> None:
    add(state_dir, "a", "b")
    executed(state_dir, "a", "true")
    with collecting() as collector:
        collector.is_away = True
        words = ("trace", "export", "--state-dir", state_dir, "--endpoint", collector.url)
        env = {"OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
        once = understudy(*words, "--json", env=env)
        assert once.returncode == 7, once.stderr
        assert orjson.loads(once.stdout)["sent"] == 0
        with Program([UNDERSTUDY, *words, "--follow"]) as following:
            refused = collector.refused
            eventually(lambda: collector.refused > refused)
            executed(state_dir, "b", "true")
            collector.is_away = False
            eventually(lambda: len(collector.spans) == 4)
            assert following.terminate() == 0
        assert len(set(collector.ids())) == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "OTEL_EXPORTER_OTLP_ENDPOINT"),
        (["--endpoint", "collector:4318"], "http://127.0.0.1:4318"),
        (["--endpoint", "http://[::1"], "http://127.0.0.1:4318"),
    ],
)
def test_a_collector_has_to_be_named(call: Run, words: list[str], said: str) -> None:
    for name in otlp.ENDPOINTS:
        assert name not in os.environ
    answer = call("trace", "export", *words)
    assert (answer.code, said in answer.err) == (2, True), answer.err


def test_without_the_extra_one_is_told_what_to_install(
    call: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "find_spec", lambda _: None)
    for command in (("trace", "export"), ("up", "--exec", "true", "--traces")):
        answer = call(*command)
        assert (answer.code, "pip install 'understudy[traces]'" in answer.err) == (2, True)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://h:4318", "http://h:4318/v1/traces"),
        ("http://h:4318/", "http://h:4318/v1/traces"),
        ("https://h/otlp/v1/traces", "https://h/otlp/v1/traces"),
    ],
)
def test_a_collector_is_named_by_its_base_or_in_full(given: str, url: str) -> None:
    assert otlp.traces_url(given) == url
