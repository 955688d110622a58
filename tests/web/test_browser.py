"""The console in a real browser: stories on real trees, every page in light and dark."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.browser.conftest import browser
from tests.browser.stand import Browser, BrowserPage, opened
from tests.patience import eventually
from tests.services.server import Server
from tests.surfaces.process import ROOT, UNDERSTUDY, commanded, environment
from understudy.authority.service.client import Client, ClientCall
from understudy.surfaces.web.link_socket import find_link

__all__ = ["browser"]

SHOTS = ROOT / "build" / "console"
PAGES = {
    "now": "/",
    "work": "/work",
    "graph": "/work?view=graph",
    "item": "/work/issue/parser",
    "descent": "/descent",
    "evidence": "/evidence",
    "row": "/evidence/3",
    "logs": "/logs",
    "log": "/logs/read/issue%2Flexer",
    "doctor": "/doctor",
}
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'`${7*7}"
ISSUES = {"lexer": "", "parser": "lexer", "types": "", "codegen": "parser"}
COMMAND = """\
echo "begin $UNDERSTUDY_ISSUE"
i=0; while [ $i -lt 600 ]; do i=$((i+1)); echo "line $i"; sleep 0.2; done
"""


class WebTree:
    """`understudy up --web` on a state directory."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir

    def told(self, *words: str) -> str:
        done = commanded("--state-dir", self.state_dir, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    def link(self) -> str:
        found = find_link(self.state_dir / "run")
        assert found is not None
        return found


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebTree]:
    """Two workers at work, one issue that waits for a person, one that is blocked, a pause."""
    folder = tmp_path_factory.mktemp("tree")
    found = WebTree(folder / "state")
    found.told("init")
    found.told("policy", "set", "--approve", "label/risky")
    for name, waits_for in ISSUES.items():
        found.told("issue", "add", f"Do the {name} {HOSTILE}", "--id", name)
        if waits_for:
            found.told("dep", "add", name, waits_for)
    found.told("issue", "add", "Delete the archive", "--id", "risky", "--label", "risky")
    found.told("issue", "add", "Stuck", "--id", "stuck")
    found.told("issue", "update", "stuck", "--status", "blocked")
    found.told("exec", "lexer", "--", "printf", "%s\\ntold\\n", HOSTILE)
    found.told("job", "schedule", "build-1", "--kind", "ci.build")
    found.told("budget", "set", "*", "--per", "day", "--tokens", "1000")
    found.told("pause", "--label", "slow", "--reason", HOSTILE)
    words = ["up", "--web", "0", "--workers", "2", "--exec", COMMAND, "--state-dir"]
    log = folder / "up.log"
    env = environment(PYTHONPATH=str(ROOT))
    with Server([UNDERSTUDY, *words, found.state_dir], log, env=env) as server:
        server.wait_for(lambda: "console, once" in log.read_text("utf-8"))
        yield found


@contextmanager
def signed_in(browser: Browser, tree: WebTree, **options: object) -> Iterator[BrowserPage]:
    with opened(browser, **options) as page:
        page.goto(tree.link())
        page.wait("h1")
        yield page


def base(page: BrowserPage) -> str:
    return "/".join(page.url.split("/")[:3])


def test_every_page_in_light_and_dark_is_fit_for_everybody(browser: Browser, tree: WebTree) -> None:
    wrong: dict[str, list[str]] = {}
    for theme in ("light", "dark"):
        with signed_in(browser, tree, dark=theme == "dark") as page:
            for name, path in PAGES.items():
                assert page.goto(base(page) + path) == 200, path
                page.wait("main h1")
                page.screenshot(SHOTS / f"{name}-{theme}.png")
                if found := page.axe():
                    wrong[f"{name} {theme}"] = found
    assert wrong == {}, json.dumps(wrong, indent=1)


def test_no_text_becomes_markup(browser: Browser, tree: WebTree) -> None:
    with signed_in(browser, tree) as page:
        for path in PAGES.values():
            page.goto(base(page) + path)
            assert page.count("main script, main img, [onerror]") == 0, path
    # and `opened` has seen that nothing was alerted, and nothing refused by the page's policy


def test_the_address_has_no_secret_and_a_reload_keeps_the_filters(
    browser: Browser, tree: WebTree
) -> None:
    with signed_in(browser, tree) as page:
        assert "key" not in page.url
        page.goto(base(page) + "/work")
        page.fill("input[name=q]", "parser")
        page.click("form.filters button:has-text('Show')")
        page.until_text("parser", "main table")
        assert page.count("main tbody tr") == 1
        page.reload()
        assert page.count("main tbody tr") == 1
        assert "q=parser" in page.url


def test_a_tree_at_work_a_cancel_and_a_zombie(browser: Browser, tree: WebTree) -> None:
    with signed_in(browser, tree) as page:
        page.until_text("types", "#at-work")
        assert page.count("svg.tree .box") >= 6
        page.until_text("live", "#pulse")
        shown = tree.told("issue", "show", "types", "--json")
        lease = json.loads(shown)["issue"]["lease"]
        page.click("#at-work tr:has-text('types') button:has-text('Cancel')")
        page.wait("dialog[open]")
        page.fill("dialog input", "not wanted any more")
        page.click("dialog button[value=yes]")
        page.until("!document.querySelector('#at-work').innerText.includes('types')")
        assert '"cancelled"' in tree.told("issue", "show", "types", "--json")
        with Client(tree.state_dir, "mcp") as zombie:
            late = {"id": "types", "assignee": lease["owner"], "leaseId": lease["leaseId"]}
            refused = zombie.ask("issue.update", late | {"fence": lease["fence"], "title": "mine"})
        assert refused["result"] == "rejected"
        page.until_text(refused["failureClasses"][0], "main")
        page.goto(base(page) + "/work/issue/types")
        page.until_text("refused", "#timeline")
        page.until_text("not wanted any more", "main")


def test_approve_from_the_page(browser: Browser, tree: WebTree) -> None:
    with signed_in(browser, tree) as page:
        page.click("#people tr:has-text('risky') button:has-text('Approve')")
        page.until("!document.querySelector('#people').innerText.includes('Delete the archive')")
        assert '"approved"' in tree.told("issue", "show", "risky", "--json")


def test_a_log_is_followed(browser: Browser, tree: WebTree) -> None:
    with signed_in(browser, tree) as page:
        page.goto(base(page) + "/logs/read/issue%2Fparser")
        page.click("button[aria-controls=log]")
        begun = page.text("#log").count("line")
        page.until(f"document.querySelector('#log').innerText.split('line').length > {begun + 5}")


def test_keys_lead_from_page_to_page(browser: Browser, tree: WebTree) -> None:
    with signed_in(browser, tree) as page:
        page.until_text("live", "#pulse")
        page.press("g")
        page.press("w")
        page.until("location.pathname === '/work'")
        page.wait("form.filters")
        page.press("/")
        page.until("document.activeElement?.closest('form.filters') !== null")
        page.press("Escape")
        page.evaluate("document.activeElement.blur()")
        page.press("Shift+?")
        page.wait("dialog[open]")
        page.press("Escape")
        page.until("!document.querySelector('dialog[open]')")


def test_without_scripts_tables_and_buttons_work(browser: Browser, tree: WebTree) -> None:
    with signed_in(browser, tree, javascript=False) as page:
        page.click("text=Work")
        page.wait("main table")
        assert "Stuck" in page.text("main table")
        page.click("tr:has-text('Stuck') button:has-text('Retry')")
        page.wait(".told")
        assert "retry: issue/stuck" in page.text(".told")


def test_narrow_screens_do_not_scroll_sideways(browser: Browser, tree: WebTree) -> None:
    with signed_in(browser, tree, width=380, height=700) as page:
        for path in PAGES.values():
            page.goto(base(page) + path)
            page.wait("main h1")
            beyond = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert page.evaluate(beyond) <= 1, path


def test_a_console_that_is_killed_comes_back_under_the_page(
    browser: Browser, tree: WebTree
) -> None:
    with signed_in(browser, tree) as page:
        page.until_text("live", "#pulse")
        pid = int(json.loads(tree.told("status", "--json"))["gateway"]["pid"])
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: find_link(tree.state_dir / "run") is not None)
        page.problems()  # of connections that were lost


def test_a_thousand_changes_a_second_do_not_freeze_a_page(browser: Browser, tree: WebTree) -> None:
    with signed_in(browser, tree) as page:
        page.until_text("live", "#pulse")
        before = page.metrics()
        page.evaluate("window.beats = 0; setInterval(() => window.beats++, 50)")
        begun, count = time.monotonic(), 0
        with Client(tree.state_dir, "mcp") as client:
            while time.monotonic() < begun + 4:
                calls: list[ClientCall] = [
                    ClientCall("issue.add", {"title": f"storm {count + n}"}) for n in range(100)
                ]
                client.ask_many(calls)
                count += 100
                time.sleep(max(0.0, begun + count / 1000 - time.monotonic()))
        beats = page.evaluate("window.beats")
        assert beats > 0.5 * 20 * (time.monotonic() - begun)  # of those it would have at leisure
        after = page.metrics()
        assert after["Nodes"] < 4 * before["Nodes"] + 2000
        assert after["JSHeapUsedSize"] < 3 * before["JSHeapUsedSize"] + 5_000_000
        assert len(page.requests()) < 60  # a summary and a page now and then, not one for each
