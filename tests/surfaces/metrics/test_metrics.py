"""Metrics of real processes: what they count is what was done, and every scrape is well-formed."""

import http.client
import json
import re
import socket
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.mcp.stand import standing
from tests.patience import PATIENCE_SECONDS
from tests.services.server import Server
from tests.surfaces.process import ROOT, UNDERSTUDY, commanded, environment
from understudy.authority.service.client import Client
from understudy.surfaces.metrics import exposition
from understudy.surfaces.metrics.table import METRICS

DASHBOARD = ROOT / "docs" / "grafana-dashboard.json"
PAGE = ROOT / "docs" / "metrics.md"
TOKEN = "a-token-of-some-length"


def scraped(
    port: int, *, method: str = "GET", path: str = "/metrics", **headers: str
) -> tuple[int, str]:
    channel = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        channel.request(method, path, headers=headers)
        answer = channel.getresponse()
        return answer.status, answer.read().decode()
    finally:
        channel.close()


def numbers(text: str) -> dict[str, float]:
    """Every sample by its name and labels."""
    return {
        each.name + "".join(f"{{{value}}}" for value in each.labels.values()): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


def asked(state_dir: Path) -> None:
    """Three that are granted, and two refusals."""
    with Client(state_dir, "cli") as authority:
        authority.ask("issue.add", {"id": "a", "title": "one"})
        authority.ask("issue.claim", {"id": "a", "assignee": "ada"})
        authority.ask("issue.claim", {"id": "a", "assignee": "bob"})
        authority.ask("issue.claim", {"id": "nothing", "assignee": "bob"})
        authority.ask("budget.set", {"scope": "*", "per": "day", "tokensMax": 1000})


def well_formed(text: str) -> None:
    """By the conventions of Prometheus."""
    for family in text_string_to_metric_families(text):
        assert family.documentation
        assert family.name.startswith("understudy_")
        if family.type == "counter":
            assert all(each.name.endswith("_total") for each in family.samples)
        if family.type == "histogram":
            bounds = [each for each in family.samples if each.name.endswith("_bucket")]
            values = [each.value for each in bounds]
            assert values == sorted(values)
            assert bounds[-1].labels["le"] == "+Inf"
            total = next(each for each in family.samples if each.name.endswith("_count"))
            assert total.value == values[-1]


def test_a_sidecar_counts_what_it_did(tmp_path: Path) -> None:
    state_dir, log = tmp_path / "s", tmp_path / "log"
    assert commanded("--state-dir", state_dir, "init").returncode == 0
    words: list[str | Path] = [UNDERSTUDY, "authority", "serve", "--metrics", "0"]
    with Server(
        [*words, "--state-dir", state_dir], log, env=environment(PYTHONPATH=str(ROOT))
    ) as server:
        server.wait_for(lambda: "/metrics" in log.read_text())
        found = re.search(r"127\.0\.0\.1:(\d+)/metrics", log.read_text())
        assert found is not None
        port = int(found[1])
        asked(state_dir)
        status, text = scraped(port)
        assert status == 200
        well_formed(text)
        seen = numbers(text)
        assert seen["understudy_requests_total"] == 5
        assert seen["understudy_refusals_total{lease_contention_active}"] == 1
        assert seen["understudy_refusals_total{lease_not_found}"] == 1
        assert seen["understudy_commit_requests_count"] == 5
        assert scraped(port, path="/")[0] == 404
        assert scraped(port, method="POST")[0] == 405
        assert scraped(port, method="HEAD") == (200, "")
        assert scraped(port, Host="evil.example")[0] == 421
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(16)]
        for each in slow:
            each.sendall(b"GET /met")
        with Client(state_dir, "cli") as authority:
            assert authority.ask("issue.show", {"id": "a"})["result"] == "accepted"
        for each in slow:
            each.close()
        assert scraped(port)[0] in (200, 503)


def test_the_gateway_says_everything_behind_its_token(tmp_path: Path) -> None:
    with standing(tmp_path, UNDERSTUDY_HTTP_TOKEN=TOKEN) as stand:
        port = int(stand.url.split(":")[2].partition("/")[0])
        assert scraped(port)[0] == 401
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert scraped(port, Host="evil.example", **bearer)[0] == 421
        assert scraped(port, method="POST", **bearer)[0] == 405
        asked(stand.state_dir)
        commanded("--state-dir", stand.state_dir, "sql", "SELECT 1")  # the tables have caught up
        status, text = scraped(port, **bearer)
        assert status == 200
        well_formed(text)
        seen = numbers(text)
        assert seen["understudy_sidecar_up"] == 1
        assert seen["understudy_tree_up"] == 0
        assert seen["understudy_issues{in_progress}"] == 1
        assert seen["understudy_leases_held{issue}"] == 1
        assert seen["understudy_renewals_late"] == 0
        assert seen["understudy_attempts_total{issue}"] == 1
        assert seen["understudy_budget_used_ratio{day}{*}"] == 0
        assert seen["understudy_journal_bytes{journal}"] > 0
        assert seen["understudy_journal_rows_total"] == 5


def test_without_a_sidecar_a_scrape_says_so(tmp_path: Path) -> None:
    from understudy.surfaces.metrics.reading import read_all

    assert commanded("--state-dir", tmp_path / "s", "init").returncode == 0
    seen = numbers(exposition.as_text(read_all(tmp_path / "s")).decode())
    assert (seen["understudy_sidecar_up"], seen["understudy_tree_up"]) == (0, 0)


def test_without_the_package_the_way_to_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "find_spec", lambda _: None)
    with pytest.raises(exposition.MetricsMissing, match=r"understudy\[metrics\]"):
        exposition.as_text([])


def _expressions() -> list[str]:
    found = json.loads(DASHBOARD.read_text("utf-8"))
    return [target["expr"] for panel in found["panels"] for target in panel["targets"]]


def _named(text: str) -> set[str]:
    words = set(re.findall(r"understudy_\w+", text))
    return {re.sub(r"_(bucket|sum|count)$", "", each) for each in words}


def test_the_dashboard_asks_for_what_is_exported_and_for_all_of_it() -> None:
    exported = {each.exported for each in METRICS}
    assert _named(" ".join(_expressions())) == exported


def test_the_page_has_every_metric_and_its_alerts_ask_for_real_ones() -> None:
    text = PAGE.read_text("utf-8")
    rows = dict(re.findall(r"^\| `(understudy_\w+)` \| (\w+) ", text, re.MULTILINE))
    assert rows == {each.exported: each.kind for each in METRICS}
    alerts = " ".join(re.findall(r"expr: (.*)", text))
    assert _named(alerts) <= {each.exported for each in METRICS}
