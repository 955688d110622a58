"""Every page on real state: what it shows, in bounds, and calm about what there is not."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.limits import stands_on
from tests.patience import eventually
from tests.together import together
from tests.web.stand import ConsoleStand, Person, console
from understudy.authority import Office, create_state_dir
from understudy.authority.conformance import Vector, run_vector
from understudy.contracts import limits
from understudy.surfaces.web.gate import _form
from understudy.surfaces.web.markup import Markup, joined, tag, url
from understudy.surfaces.web.pages.graph import laid_out

HOSTILE = "<script>alert(1)</script>\"'&"
IDS = ["plain", "a-b", "hash_1", "with.dot", "quoted", "Z" * 128]
SHOWN = (
    "/", "/work", "/work?kind=jobs", "/work?kind=specs", "/work?view=graph", "/work?status=open",
    "/work?q=%C3%BC", "/work?label=l%3C1%3E", "/work?holder=ada", "/work?kind=jobs&of=ci.",
    "/descent", "/evidence", "/evidence?result=refused", "/evidence?work=plain",
    "/evidence?action=issue.add", "/evidence/1", "/logs", "/logs?q=alert", "/doctor",
    "/work?before=x~y", "/work?kind=jobs&before=x~y", "/work?q=%00", "/evidence?before=0",
)  # fmt: skip
MISSING = (
    "/work/issue/nothing", "/work/job/nothing", "/evidence/999", "/evidence/0",
    "/evidence/proof/9", "/logs/read/issue%2Fnothing", "/logs/read/tree%2Fjournal.db",
    "/logs/download/tree%2F..%2Fjournal.db", "/evidence/999/vector", "/nothing",
)  # fmt: skip


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleStand]:
    """Issues of all sorts, one with a story, a job, a spec, a log."""
    folder = tmp_path_factory.mktemp("pages")
    create_state_dir(folder / "state", "local")
    with Office(folder / "state") as office:
        for name in IDS:
            office.ask("issue.add", {"id": name, "title": f"{name} {HOSTILE}", "labels": ["l<1>"]})
        office.ask("dep.add", {"id": "a-b", "dependsOnId": "plain"})
        office.ask("dep.add", {"id": "hash_1", "dependsOnId": "a-b"})
        granted = office.ask("issue.claim", {"id": "plain", "assignee": "ada"})
        lease = granted["issue"]["lease"]
        held = {"id": "plain", "assignee": "ada", "leaseId": lease["leaseId"]}
        for _ in range(3):
            office.ask("issue.lease_renew", held | {"fence": lease["fence"]}, transport="mcp")
        office.ask("issue.lease_break", {"id": "plain", "reason": "late"})
        office.ask("issue.update", held | {"fence": lease["fence"], "title": "zombie"})
        office.ask("job.schedule", {"jobId": "j1", "kind": "ci.build", "payload": {"x": HOSTILE}})
        steps = [{"stepKey": "root", "kind": "k.x"}]
        office.ask("spec.submit", {"specId": "s1", "title": HOSTILE, "steps": steps})
    with console(folder) as found:
        printed = f"%s\\n\\033[31mred\\033[0m\\n{'x' * 50}\\n"
        found.told("exec", "quoted", "--", "printf", printed, HOSTILE)
        yield found


@together("path", SHOWN)
def test_every_page_is_small_escaped_and_whole(stand: ConsoleStand, path: str) -> None:
    found = stand.visit().get(path)
    assert found.status == 200, found.text
    assert len(found.body) < 100_000
    assert "<script>alert" not in found.text
    assert "style=" not in found.text
    assert found.text.count("<main") == 1


@together("name", IDS)
def test_every_issue_has_its_page(stand: ConsoleStand, name: str) -> None:
    person = stand.visit()
    assert f'href="/work/issue/{name}"' in person.get("/work").text
    shown = person.get(f"/work/issue/{name}")
    assert shown.status == 200
    assert tag("span", name, class_="id") in shown.text


def test_a_timeline_tells_the_story(person: Person) -> None:
    text = person.get("/work/issue/plain").text.partition('id="timeline"')[2]
    for words in ("renewed 3 times", "lease broken", "refused", "lease_missing", "added", "<svg"):
        assert words in text, words


@together("path", MISSING)
def test_what_there_is_not_is_said_calmly(stand: ConsoleStand, path: str) -> None:
    assert stand.visit().get(path).status == 404


def test_a_log_is_shown_searched_followed_and_downloaded(person: Person) -> None:
    name = "/logs/read/issue%2Fquoted"
    text = person.get(name).text
    assert "&lt;script&gt;alert(1)" in text
    assert "\x1b" not in text
    raw = person.get(f"{name}?raw=1&from=0")
    assert raw.headers["x-understudy-ended"] == "1"
    assert raw.headers["content-type"].startswith("text/plain")
    size = int(raw.headers["x-understudy-next"])
    assert person.get(f"{name}?raw=1&from={size}").body == b""
    assert "<mark>red</mark>" in person.get(f"{name}?q=red").text
    kept = person.get("/logs/download/issue%2Fquoted")
    assert kept.headers["content-disposition"].startswith("attachment")
    assert HOSTILE.encode() in kept.body


def test_a_row_is_copied_as_a_vector_that_holds(person: Person, tmp_path: Path) -> None:
    found = person.get("/evidence/12/vector")
    assert found.status == 200, found.text
    body = orjson.loads(found.body)
    path = tmp_path / "row_12.json"
    path.write_bytes(found.body)
    assert run_vector(Vector(path, "copied", "golden", "row_12", body)).ok


def test_verify_and_replay_from_the_page(stand: ConsoleStand, person: Person) -> None:
    for proof in ("verify", "replay"):
        begun = person.post(f"/prove/{proof}")
        assert begun.status == 303
        number = begun.headers["location"].rpartition("/")[2]

        def is_over(number: str = number) -> bool:
            return bool(person.get(f"/prove/{number}").json()["endedMs"])

        eventually(is_over)
        report = person.get(f"/prove/{number}").json()
        assert report["report"]["result"] == "accepted", report
        assert f"{report['report']['rows']} rows" in person.get("/evidence").text


@stands_on("WEB_TASKS_MAX")
def test_one_proof_too_many_is_refused(person: Person) -> None:
    many = range(limits.WEB_TASKS_MAX + 2)
    begun = [person.post("/prove/replay").headers["location"] for _ in many]
    assert "/evidence/proof" in begun[0]
    assert begun[-1] == "/"


@stands_on("WEB_PAGE_ROWS")
def test_pages_walk_through_all_work_once(tmp_path: Path) -> None:
    count = limits.WEB_PAGE_ROWS * 2 + 1
    create_state_dir(tmp_path / "state", "local")
    with Office(tmp_path / "state") as office:
        for number in range(count):
            office.ask("issue.add", {"id": f"n-{number}", "title": "same time or not"})
    with console(tmp_path) as stand:
        person, path, seen = stand.visit(), "/work", list[str]()
        while path:
            text = person.get(path).text
            page = re.findall(r'href="/work/issue/(n-\d+)"', text)
            assert len(page) <= limits.WEB_PAGE_ROWS
            seen += page
            following = re.search(r'href="([^"]+)" rel="next"', text)
            path = following[1].replace("&amp;", "&") if following else ""
        assert sorted(seen) == sorted(f"n-{number}" for number in range(count))
        steps = person.get("/evidence").text
        assert steps.count('class="number">') >= limits.WEB_PAGE_ROWS
        assert 'rel="next"' in steps


@stands_on("WEB_GRAPH_NODES_MAX")
def test_a_graph_has_a_bound_and_says_what_it_left_out(tmp_path: Path) -> None:
    create_state_dir(tmp_path / "state", "local")
    with Office(tmp_path / "state") as office:
        office.ask("issue.add", {"id": "hub", "title": "hub"})
        for number in range(limits.WEB_GRAPH_NODES_MAX + 5):
            office.ask("issue.add", {"id": f"n-{number}", "title": "leaf"})
            office.ask("dep.add", {"id": f"n-{number}", "dependsOnId": "hub"})
    with console(tmp_path) as stand:
        text = stand.visit().get("/work/issue/hub").text
        assert text.count('class="node') == limits.WEB_GRAPH_NODES_MAX
        assert "6 more are not drawn" in text


@stands_on("WEB_FIELDS_MAX")
def test_a_form_has_a_bound() -> None:
    full = "&".join(f"a{number}=1" for number in range(limits.WEB_FIELDS_MAX))
    assert len(_form(full.encode())) == limits.WEB_FIELDS_MAX
    assert _form(f"{full}&b=1".encode()) == {}


# --- pure parts -----------------------------------------------------------------------------------


@given(st.text(), st.text())
def test_no_text_can_become_markup(one: str, two: str) -> None:
    made = tag("a", one, title=two, href=url("/x", q=two.replace("\ud800", "")))
    inside = made[made.index(">") + 1 : -4]
    assert "<" not in inside
    assert made.count("<") == 2
    assert joined(made, None, [Markup("<br>"), one]).count("<br>") == 1
    query = urlsplit(url("/x", q=two.strip() or "y")).query
    assert parse_qs(query, keep_blank_values=True)["q"] == [two.strip() or "y"]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=40))
def test_a_layout_has_a_place_for_each_and_none_twice(pairs: list[tuple[int, int]]) -> None:
    """Cycles too."""
    names = [f"n{number}" for number in range(13)]
    places = laid_out(names, [(f"n{one}", f"n{two}") for one, two in pairs])
    assert set(places) == set(names)
    assert len(set(places.values())) == len(names)
