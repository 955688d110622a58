"""A tree that sends traces: what its workers do reaches a collector, whoever dies or is away."""

import os
import signal
from pathlib import Path

import orjson

from tests.fakes.collector import collecting
from tests.mcp.gateway.agents import Agent
from tests.patience import eventually
from tests.surfaces.process import report_of
from tests.tree.house import Up, add, statuses


def test_what_workers_do_is_sent_and_their_commands_know_the_span(
    state_dir: Path, tmp_path: Path
) -> None:
    add(state_dir, "a", "b")
    told = tmp_path / "told"
    with collecting() as collector:
        words = ("--exec", f"echo $TRACEPARENT >> {told}", "--traces", collector.url)
        with Up(state_dir, *words, "--log-format", "json").ready() as up:
            assert up.picture()["tree"][-1]["id"] == "tracer"
            eventually(lambda: len(collector.named("attempt")) == 2)
            pid = int(up.pid_of("tracer"))
            os.kill(pid, signal.SIGKILL)
            add(state_dir, "c")
            eventually(lambda: len(collector.named("attempt")) == 3)
            assert up.terminate() == 0
        sent = {f"00-{each['traceId']}-{each['spanId']}-01" for each in collector.named("attempt")}
        assert set(told.read_text().split()) == sent
        assert len(set(collector.ids())) == 6
        shown = report_of("trace", "--state-dir", state_dir)["spans"]
        assert {each["spanId"]: each for each in shown} == {
            each["spanId"]: each for each in collector.spans
        }
    assert set(statuses(state_dir).values()) == {"closed"}


def test_a_tree_goes_on_where_no_collector_is(state_dir: Path) -> None:
    add(state_dir, "a")
    env = {"OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    words = ("--exec", "true", "--traces", "http://127.0.0.1:9")
    with Up(state_dir, *words, env=env).ready() as up:
        eventually(lambda: statuses(state_dir)["a"] == "closed")
        assert up.picture()["tree"][-1]["state"] == "running"
        assert up.terminate() == 0


def test_lines_about_work_have_the_ids_of_its_trace(state_dir: Path) -> None:
    add(state_dir, "a")
    words = ("--exec", "true", "--log-format", "json", "--until-done")
    with Up(state_dir, *words) as up:
        assert up.wait() == 0
        said = up.complaint()
    lines = [orjson.loads(line) for line in said.splitlines() if line.startswith("{")]
    (attempt,) = [
        each
        for each in report_of("trace", "a", "--state-dir", state_dir)["spans"]
        if each["name"] == "attempt"
    ]
    assert {each["traceId"] for each in lines if each.get("issue") == "a"} == {attempt["traceId"]}
    (claimed,) = [each for each in lines if each["event"] == "claimed"]
    assert claimed["spanId"] == attempt["spanId"]
    log = (state_dir / "run" / "sidecar.log").read_bytes().splitlines()
    assert all(orjson.loads(line)["level"] for line in log)


def test_calls_of_agents_are_spans_below_the_term_that_they_are_about(state_dir: Path) -> None:
    add(state_dir, "a")
    cause = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    with collecting() as collector:
        with (
            Up(state_dir, "--mcp", "--traces", collector.url, "--log-format", "json") as up,
            Agent(up.ready().state_dir) as agent,
        ):
            held = agent.greet().take()
            params = {"name": "work_complete", "arguments": held, "_meta": {"traceparent": cause}}
            assert "result" in agent.rpc("tools/call", params)
            agent.kill()
            eventually(lambda: len(collector.named("tools/call work_complete")) == 1)
            assert up.terminate() == 0
        (attempt,) = collector.named("attempt")
        (claimed,) = collector.named("tools/call work_next")
        (completed,) = collector.named("tools/call work_complete")
        for call in (claimed, completed):
            assert (call["traceId"], call["parentSpanId"]) == (
                attempt["traceId"],
                attempt["spanId"],
            )
            assert call["attributes"]["understudy.fence"] == held["fence"]
        assert completed["links"] == [{"traceId": "a" * 32, "spanId": "b" * 16}]
    log = (state_dir / "run" / "gateway.log").read_bytes().splitlines()
    assert all(orjson.loads(line)["level"] for line in log)
