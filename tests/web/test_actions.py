"""What a person does from the page is a request like any other, with evidence of its own."""

import re

from tests.together import together
from tests.web.stand import ConsoleStand, Person


def made(stand: ConsoleStand, *words: str) -> str:
    """A new issue, by the command line."""
    found = re.search(r"added (\S+)", stand.told("issue", "add", *words))
    assert found is not None
    return found[1]


def test_cancel_and_retry_an_issue(stand: ConsoleStand, person: Person) -> None:
    issue = made(stand, "to be cancelled")
    done = person.post("/act/cancel", {"work": f"issue/{issue}", "reason": "not wanted"})
    assert done.status == 303
    shown = stand.told("issue", "show", issue, "--json")
    assert '"status":"cancelled"' in shown
    assert f"cancel: issue/{issue}" in person.get("/").text
    assert person.post("/act/retry", {"work": f"issue/{issue}"}).status == 303
    assert '"status":"open"' in stand.told("issue", "show", issue, "--json")


def test_who_did_it_stands_in_the_evidence(stand: ConsoleStand) -> None:
    issue = made(stand, "steered by ada")
    ada = Person(stand.base).enter(stand.another_link("--as", "ada"))
    ada.post("/act/cancel", {"work": f"issue/{issue}"})
    shown = stand.told("issue", "show", issue, "--json")
    assert '"ada"' in shown


def test_approve_and_reject(stand: ConsoleStand, person: Person) -> None:
    stand.told("policy", "set", "--approve", "label/risky")
    yes, no = made(stand, "a", "--label", "risky"), made(stand, "b", "--label", "risky")
    page = person.get("/").text
    assert f"/work/issue/{yes}" in page
    assert "Approve" in page
    person.post("/act/approve", {"work": f"issue/{yes}"})
    person.post("/act/reject", {"work": f"issue/{no}"})
    assert '"approved"' in stand.told("issue", "show", yes, "--json")
    assert '"rejected"' in stand.told("issue", "show", no, "--json")


def test_break_a_lease(stand: ConsoleStand, person: Person) -> None:
    issue = made(stand, "held")
    stand.told("issue", "claim", issue, "--as", "bob")
    person.post("/act/break", {"work": f"issue/{issue}"})
    assert '"lease"' not in stand.told("issue", "show", issue, "--json")


def test_pause_and_unpause(stand: ConsoleStand, person: Person) -> None:
    person.post("/act/pause", {"scope": "label/slow", "reason": "lunch <b>"})
    assert "label/slow" in stand.told("pause", "--list")
    page = person.get("/").text
    assert "lunch &lt;b&gt;" in page
    assert "lunch <b>" not in page
    person.post("/act/unpause", {"scope": "label/slow"})
    assert "nothing is paused" in stand.told("pause", "--list")


def test_what_is_sent_twice_is_done_once(stand: ConsoleStand, person: Person) -> None:
    issue = made(stand, "clicked twice")
    form = {"work": f"issue/{issue}", "request": "web-twice"}
    texts = {person.post("/act/cancel", form, accept="application/json").text for _ in range(2)}
    assert len(texts) == 1
    assert '"refused":false' in texts.pop()


@together(
    "verb, form",
    [
        ("cancel", {"work": "issue/nothing-of-this-name"}),
        ("cancel", {"work": "job/nothing"}),
        ("cancel", {"work": "<script>alert(1)</script>"}),
        ("cancel", {}),
        ("retry", {"work": "issue/"}),
        ("break", {"work": "issue/nothing"}),
        ("pause", {"scope": "nonsense/" + "x" * 100}),
        ("approve", {"work": "issue/\x00"}),
        ("unpause", {"scope": "label/never"}),
        ("cancel", {"work": "issue/a", "request": "\ud800".encode("utf-8", "replace").decode()}),
    ],
)
def test_a_refusal_is_told_and_changes_nothing(
    stand: ConsoleStand, verb: str, form: dict[str, str]
) -> None:
    person = stand.visit()
    said = person.post(f"/act/{verb}", form, accept="application/json")
    assert said.status == 200
    assert said.json()["refused"] is True
    assert person.post(f"/act/{verb}", form).status == 303
    page = person.get("/")
    assert "refused" in page.text
    assert "<script>alert" not in page.text
    assert "refused" not in person.get("/").text.partition("Refused last")[0]


def test_there_is_no_other_verb(person: Person) -> None:
    assert person.post("/act/close", {"work": "issue/us-1"}).status == 404
    assert person.post("/prove/rebuild").status == 404
