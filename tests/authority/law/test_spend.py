"""What work costs and may cost: the numbers at which something changes, from both sides."""

import pytest
from msgspec.structs import replace

from tests.fakes.desk import Desk
from tests.limits import stands_on
from understudy.authority.law.image import dump
from understudy.contracts import WorkSpend, limits


def held(desk: Desk, issue: str = "a", **members: object) -> dict[str, object]:
    desk.grant("issue.add", id=issue, title="t", **members)
    return desk.claim(issue, "ann")


@stands_on("SPEND_REPORT_MAX")
def test_a_report_says_so_much_and_no_more() -> None:
    desk = Desk()
    proof = held(desk)
    most = limits.SPEND_REPORT_MAX
    assert desk.refusal("spend.report", **proof, usdMicros=most + 1) == "spend_amount_invalid"
    desk.grant("spend.report", **proof, usdMicros=most)


@stands_on("BUDGET_WARNING_PERCENT")
def test_a_warning_comes_at_this_percentage_and_not_before() -> None:
    desk = Desk()
    proof = held(desk)
    desk.grant("budget.set", scope="*", per="work", tokensMax=100)

    def state(tokens: int) -> str:
        return str(desk.grant("spend.report", **proof, tokens=tokens)["budgets"][0]["state"])

    assert state(limits.BUDGET_WARNING_PERCENT - 1) == "within"
    assert state(1) == "warning"


@stands_on("BUDGETS_MAX", "TALLIES_MAX")
def test_budgets_and_tallies_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    proof = held(desk, labels=["x"])
    monkeypatch.setattr(limits, "BUDGETS_MAX", 1)
    desk.grant("budget.set", scope="*", per="work", tokensMax=9)
    full = {"scope": "*", "per": "day", "tokensMax": 9}
    assert desk.refusal("budget.set", **full) == "budget_store_full"
    monkeypatch.setattr(limits, "TALLIES_MAX", 1)  # `*`, and its label
    assert desk.refusal("spend.report", **proof, tokens=1) == "spend_store_full"
    monkeypatch.setattr(limits, "TALLIES_MAX", 2)
    desk.grant("spend.report", **proof, tokens=1)


@stands_on("SPEND_SHOWN_MAX")
def test_an_answer_shows_so_much_and_says_that_there_is_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk()
    desk.grant("spend.report", **held(desk, labels=["x"]), tokens=1)
    monkeypatch.setattr(limits, "SPEND_SHOWN_MAX", 2)
    assert desk.grant("spend.show")["truncated"] is False
    monkeypatch.setattr(limits, "SPEND_SHOWN_MAX", 1)
    shown = desk.grant("spend.show")
    assert (shown["truncated"], len(shown["tallies"])) == (True, 1)


def test_sums_end_where_no_reader_reads_them_exactly() -> None:
    desk = Desk()
    proof = held(desk)
    desk.grant("spend.report", **proof, tokens=1)
    desk.authority.state.spends["issue/a"] = _nearly_all(desk)
    answer = desk.grant("spend.report", **proof, tokens=limits.SPEND_REPORT_MAX)
    assert answer["spend"]["total"]["tokens"] == limits.INTEGER_MAX


def _nearly_all(desk: Desk) -> WorkSpend:
    spend = desk.authority.state.spends["issue/a"]
    return replace(spend, total=replace(spend.total, tokens=limits.INTEGER_MAX - 1))


def test_a_budget_that_is_set_and_cleared_leaves_the_bytes_of_before() -> None:
    """Snapshots of journals without budgets are what they were."""
    desk = Desk()
    held(desk)
    before = dump(desk.authority.state)
    desk.grant("budget.set", scope="*", per="work", tokensMax=9)
    assert dump(desk.authority.state) != before
    desk.grant("budget.clear", scope="*")
    assert dump(desk.authority.state) == before


def test_a_holder_whose_lease_lapsed_is_replaced_only_within_the_budget() -> None:
    desk = Desk()
    proof = held(desk)
    desk.grant("budget.set", scope="issue/a", per="work", tokensMax=100)
    desk.grant("spend.report", **proof, tokens=99)
    desk.time.passes(limits.TTL_SECONDS_DEFAULT * 1000 + 1)
    assert desk.refusal("spend.report", **proof, tokens=1) == "lease_stale"
    again = desk.claim("a", "bob")
    assert desk.grant("spend.report", **again, tokens=1)["stopped"] is True
    assert desk.refusal("issue.claim", id="a", assignee="cy") == "budget_exceeded"
    desk.prove()


def test_budgets_are_cleared_in_one_order_however_they_came() -> None:
    """A state from an image has them in order, and one that lived through it as they came."""
    desk = Desk()
    for per in ("work", "attempt"):
        desk.grant("budget.set", scope="*", per=per, tokensMax=9)
    cleared = desk.grant("budget.clear", scope="*")["budgets"]
    assert [each["per"] for each in cleared] == ["attempt", "work"]
