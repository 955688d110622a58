"""The guard ladder, and how a lease changes hands."""

from typing import Any

import pytest

from tests.fakes.desk import START_MS, Desk, records
from tests.together import together
from understudy.authority.law.sublease import LENDABLE
from understudy.contracts import rfc3339

Payload = dict[str, Any]


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    for key in ("a", "b", "c"):
        desk.grant("issue.add", id=key, title=key)
    return desk


def late(desk: Desk, seconds: int = 30) -> None:
    """Just past the end of the shortest lease."""
    desk.time.passes(seconds * 1000 + 1)


# --- the ladder -----------------------------------------------------------------------------------

FENCED: list[tuple[str, Payload]] = [
    ("issue.lease_renew", {}),
    ("issue.lease_release", {}),
    ("issue.lease_reconcile", {}),
    ("issue.update", {"title": "new"}),
    ("issue.close", {}),
    ("issue.discover", {"title": "found"}),
    ("issue.handover", {"checkpoint": {"summary": "half"}}),
    ("dep.add", {"dependsOnId": "b"}),
    ("dep.remove", {"dependsOnId": "b"}),
    ("dep.replace", {"dependsOnId": "b", "newDependsOnId": "c"}),
    ("sublease.grant", {"holder": "sub", "capabilityScope": []}),
    ("sublease.revoke", {"revokedSubleaseId": "s"}),
    ("instance.open", {"instanceId": "w"}),
    ("instance.close", {"instanceId": "w"}),
    ("fiber.spawn", {"taskRef": "t"}),
    ("fiber.join", {"fiberId": "f"}),
    ("fiber.cancel", {"fiberId": "f"}),
]
GUARDS: list[tuple[int, Payload, str]] = [
    (1, {"id": "nowhere"}, "lease_not_found"),
    (2, {"id": "done"}, "lease_issue_closed"),
    (3, {"id": "b"}, "lease_missing"),
    (4, {"fence": None}, "lease_fence_missing"),
    (5, {"fence": 2**53 - 1}, "lease_fence_unknown"),
    (6, {"fence": 0}, "lease_fence_stale"),
    (7, {}, "lease_stale"),
    (8, {"assignee": "bob"}, "lease_owner_mismatch"),
    (8, {"assignee": "sub", "subleaseId": "gone"}, "lease_owner_mismatch"),
    (9, {"leaseId": "other"}, "lease_id_mismatch"),
    (9, {"leaseId": None}, "lease_id_mismatch"),
    (9, {"subleaseId": "gone"}, "lease_id_mismatch"),
    (10, {"assignee": "sub", "subleaseId": "s1"}, "lease_capability_missing"),
]


@together(("guard", "wrong", "failure"), GUARDS)
@together(("action", "payload"), FENCED, ids=[action for action, _ in FENCED])
def test_every_fenced_action_climbs_the_whole_ladder(
    action: str, payload: Payload, guard: int, wrong: Payload, failure: str
) -> None:
    desk = Desk()
    for key in ("a", "b", "c", "done"):
        desk.grant("issue.add", id=key, title=key)
    desk.grant("issue.close", id="done")
    ann = desk.claim("a", "ann", leaseTtlSeconds=30)
    desk.grant("sublease.grant", **ann, newSubleaseId="s1", holder="sub", capabilityScope=[])
    if guard == 7:
        late(desk)
    before = records(desk.authority.state)
    asking = {key: value for key, value in (ann | payload | wrong).items() if value is not None}
    answer = desk.ask(action, **asking)
    assert answer["failureClasses"] == [failure]
    assert records(desk.authority.state) == before
    if guard > 3:
        assert answer["effect"]["fence"] == ann["fence"], "the evidence names the fence that won"


PRECEDENCE: list[tuple[Payload, str]] = [
    ({"fence": 0, "assignee": "bob", "leaseId": "x"}, "lease_fence_stale"),
    ({"fence": 2**53 - 1, "assignee": "bob"}, "lease_fence_unknown"),
    ({"assignee": "bob", "leaseId": "x"}, "lease_stale"),
]


@pytest.mark.parametrize(("wrong", "failure"), PRECEDENCE)
def test_the_first_guard_that_applies_gives_the_reason(
    desk: Desk, wrong: Payload, failure: str
) -> None:
    ann = desk.claim("a", "ann", leaseTtlSeconds=30)
    late(desk)
    assert desk.refusal("issue.lease_renew", **(ann | wrong)) == failure


def test_a_lease_holds_on_the_tick_of_its_deadline_and_not_one_later(desk: Desk) -> None:
    ann = desk.claim("a", "ann", leaseTtlSeconds=30)
    desk.time.passes(30_000)
    desk.grant("issue.update", **ann, title="on the tick")
    assert desk.refusal("issue.claim", id="a", assignee="bob") == "lease_contention_active"
    desk.time.passes(1)
    assert desk.refusal("issue.update", **ann, title="late") == "lease_stale"
    bob = desk.claim("a", "bob")
    assert bob["fence"] > ann["fence"]


def test_a_zombie_is_refused_with_the_fence_that_won_even_under_its_own_name(desk: Desk) -> None:
    old = desk.claim("a", "ann", leaseTtlSeconds=30, leaseId="mine")
    late(desk)
    new = desk.claim("a", "ann", leaseId="mine")
    assert (old["leaseId"], old["assignee"]) == (new["leaseId"], new["assignee"])
    assert new["fence"] > old["fence"]
    for action, payload in FENCED:
        answer = desk.ask(action, **old, **payload)
        assert answer["failureClasses"] == ["lease_fence_stale"], action
        assert f"current {new['fence']} of ann" in answer["diagnostic"]


@pytest.mark.parametrize("belief", [{"fence": 3}, {"leaseId": "l"}, {"subleaseId": "s"}])
def test_a_caller_that_believes_to_hold_free_work_is_told_that_it_is_free(
    desk: Desk, belief: Payload
) -> None:
    assert desk.refusal("issue.update", id="a", title="x", **belief) == "lease_missing"
    assert desk.refusal("issue.update", id="a", title="x", assignee="ann") is None


# --- claims ---------------------------------------------------------------------------------------

CLAIMS: list[tuple[Payload, str]] = [
    ({"assignee": ""}, "lease_invalid_assignee"),
    ({"assignee": "  "}, "lease_invalid_assignee"),
    ({"leaseTtlSeconds": 0}, "lease_invalid_ttl"),
    ({"leaseTtlSeconds": -1}, "lease_invalid_ttl"),
    ({"leaseTtlSeconds": 60, "leaseExpiresAt": "x"}, "lease_binding_ambiguous"),
    ({"leaseExpiresAt": "soon"}, "lease_invalid_expires_at"),
    ({"leaseExpiresAt": "2027-01-15T07:59:59Z"}, "lease_invalid_expires_at"),
    ({"leaseExpiresAt": "9999-12-31T23:59:59Z"}, "lease_invalid_expires_at"),
    ({"id": "nowhere"}, "lease_not_found"),
    ({"id": "done"}, "lease_issue_closed"),
    ({"id": "held"}, "lease_contention_active"),
    ({"id": "assigned"}, "lease_contention_active"),
    ({"id": "stopped"}, "lease_issue_blocked"),
    ({"id": "waiting"}, "lease_issue_blocked"),
    # A wrong time is said before anything about the issue, a wrong name before the time.
    ({"id": "held", "leaseTtlSeconds": 1}, "lease_invalid_ttl"),
    ({"id": "nowhere", "leaseTtlSeconds": 1}, "lease_invalid_ttl"),
    ({"assignee": "", "leaseTtlSeconds": 1}, "lease_invalid_assignee"),
]


@together(("wrong", "failure"), CLAIMS)
def test_a_claim_is_refused_for_the_first_reason(wrong: Payload, failure: str) -> None:
    desk = Desk()
    for key in ("a", "done", "held", "stopped", "waiting"):
        desk.grant("issue.add", id=key, title=key)
    desk.grant("issue.add", id="assigned", title="t", assignee="bob")
    desk.grant("issue.close", id="done")
    desk.claim("held", "bob")
    desk.grant("issue.update", id="stopped", status="blocked")
    desk.grant("dep.add", id="waiting", dependsOnId="a")
    before = records(desk.authority.state)
    assert desk.refusal("issue.claim", **({"id": "a", "assignee": "ann"} | wrong)) == failure
    assert records(desk.authority.state) == before


def test_a_claim_sets_owner_status_attempts_and_a_derived_id_with_the_fence(desk: Desk) -> None:
    answer = desk.grant("issue.claim", id="a", assignee=" Agent A ", leaseTtlSeconds=60)
    seq = answer["seq"]
    assert answer["issue"]["assignee"] == "Agent A"
    assert (answer["issue"]["status"], answer["issue"]["attempts"]) == ("in_progress", 1)
    assert answer["issue"]["lease"] == {
        "leaseId": f"lease1_a_agent_a_{seq}",
        "owner": "Agent A",
        "fence": seq,
        "state": "active",
        "acquiredAt": rfc3339.answer_text(START_MS),
        "expiresAt": rfc3339.answer_text(START_MS + 60_000),
    }


@pytest.mark.parametrize(
    ("owner", "token"),
    [("agent.a", "agent_a"), ("__", "anon"), ("Ünïcode", "n_code"), ("é", "anon")],
)
def test_derived_ids_are_plain_and_two_terms_never_share_one(
    desk: Desk, owner: str, token: str
) -> None:
    first = desk.claim("a", owner, leaseTtlSeconds=30)
    late(desk)
    second = desk.claim("a", owner)
    assert first["leaseId"] == f"lease1_a_{token}_{first['fence']}"
    assert second["leaseId"] == f"lease1_a_{token}_{second['fence']}"


def test_a_blank_lease_id_is_none_and_a_given_one_is_trimmed(desk: Desk) -> None:
    assert desk.claim("a", "ann", leaseId="  ")["leaseId"].startswith("lease1_a_ann_")
    assert desk.claim("b", "ann", leaseId=" mine ")["leaseId"] == "mine"


def test_the_live_holder_who_claims_again_keeps_the_term_and_gets_more_time(desk: Desk) -> None:
    first = desk.claim("a", "ann", leaseTtlSeconds=30, leaseId="mine")
    desk.time.passes(10_000)
    answer = desk.grant("issue.claim", id="a", assignee="ann", leaseTtlSeconds=60, leaseId="other")
    lease = answer["issue"]["lease"]
    assert (lease["leaseId"], lease["fence"]) == ("mine", first["fence"])
    assert lease["acquiredAt"] == rfc3339.answer_text(START_MS)
    assert lease["renewedAt"] == rfc3339.answer_text(START_MS + 10_000)
    assert lease["expiresAt"] == rfc3339.answer_text(START_MS + 70_000)
    assert answer["issue"]["attempts"] == 1
    assert desk.refusal("issue.claim", id="a", assignee="ann", fence=10**9) == "lease_fence_unknown"
    assert desk.refusal("issue.claim", id="a", assignee="ann", fence=0) == "lease_fence_stale"
    assert desk.refusal("issue.claim", id="a", assignee="ann", fence=first["fence"]) is None


def test_attempts_are_counted_at_every_grant(desk: Desk) -> None:
    for attempt in (1, 2, 3):
        answer = desk.grant("issue.claim", id="a", assignee="ann", leaseTtlSeconds=30)
        assert answer["issue"]["attempts"] == attempt
        late(desk)


def test_a_lapsed_lease_with_open_blockers_is_not_reclaimed(desk: Desk) -> None:
    ann = desk.claim("a", "ann", leaseTtlSeconds=30)
    desk.grant("dep.add", **ann, dependsOnId="b")
    late(desk)
    assert desk.refusal("issue.claim", id="a", assignee="ann") == "lease_issue_blocked"


# --- claim_next -----------------------------------------------------------------------------------


def order(desk: Desk, **filters: object) -> list[str]:
    """What is handed out, until there is nothing more."""
    found: list[str] = []
    while True:
        answer = desk.grant("issue.claim_next", assignee="ann", **filters)
        if "issue" not in answer:
            assert answer["changed"] is False
            return found
        found.append(answer["issue"]["id"])


def test_work_is_handed_out_by_priority_then_age_then_id() -> None:
    desk = Desk()
    for key, priority in (("z", 1), ("y", 0)):
        desk.grant("issue.add", id=key, title=key, priority=priority)
    desk.time.passes(1)
    for key, priority in (("b", 1), ("a", 1), ("x", -1)):
        desk.grant("issue.add", id=key, title=key, priority=priority)
    assert order(desk) == ["x", "y", "z", "a", "b"]


def test_a_lapsed_lease_takes_its_old_place_in_the_order(desk: Desk) -> None:
    desk.claim("b", "bob", leaseTtlSeconds=30)
    desk.claim("a", "bob", leaseTtlSeconds=60)
    late(desk)
    assert order(desk) == ["b", "c"]
    desk.grant("issue.lease_break", id="c", reason="x")
    late(desk)
    assert order(desk) == ["a", "c"]
    desk.prove()


def test_what_has_lapsed_is_filed_once(desk: Desk) -> None:
    desk.claim("a", "bob", leaseTtlSeconds=30)
    late(desk)
    for _ in range(2):
        desk.grant("issue.claim_next", assignee="ann", labels=["none"])
    rows = [row.changes for row in desk.journal.read(4)]
    assert [b"lapsed" in changes for changes in rows] == [True, False]
    assert order(desk) == ["a", "b", "c"]
    desk.prove()


def test_claim_next_takes_only_what_fits() -> None:
    desk = Desk()
    desk.grant("issue.add", id="plain", title="t")
    desk.grant("issue.add", id="epic", title="t", issueType="epic", labels=["x", "y"])
    desk.grant("issue.add", id="mine", title="t", assignee="ann")
    desk.grant("issue.add", id="theirs", title="t", assignee="bob")
    assert order(desk, labels=["x", "z"]) == []
    assert order(desk, labels=["y", "x"]) == ["epic"]
    assert order(desk, issueType="epic") == []
    assert order(desk, assignedTo="bob") == []
    assert order(desk, assignedTo="ann") == ["mine"]
    assert order(desk) == ["plain"]
    assert desk.refusal("issue.claim_next", assignee=" ") == "lease_invalid_assignee"
    assert desk.refusal("issue.claim_next", assignee="a", leaseTtlSeconds=1) == "lease_invalid_ttl"


# --- the holder -----------------------------------------------------------------------------------


def test_a_renewal_moves_the_deadline_and_keeps_term_and_fence(desk: Desk) -> None:
    ann = desk.claim("a", "ann", leaseTtlSeconds=600)
    desk.time.passes(1_000)
    answer = desk.grant("issue.lease_renew", **ann, leaseTtlSeconds=30)
    lease = answer["issue"]["lease"]
    assert lease["fence"] == ann["fence"]
    assert lease["expiresAt"] == rfc3339.answer_text(START_MS + 31_000), "it may get shorter"


RENEWALS: list[tuple[Payload, str]] = [
    ({"assignee": None}, "lease_invalid_assignee"),
    ({"assignee": " "}, "lease_invalid_assignee"),
    ({"leaseId": " "}, "lease_id_mismatch"),
    ({"leaseTtlSeconds": 29}, "lease_invalid_ttl"),
    ({"leaseTtlSeconds": 30, "leaseExpiresAt": "x"}, "lease_binding_ambiguous"),
]


@pytest.mark.parametrize(("wrong", "failure"), RENEWALS)
def test_a_renewal_needs_a_name_an_id_and_a_time(desk: Desk, wrong: Payload, failure: str) -> None:
    ann = desk.claim("a", "ann") | wrong
    payload = {key: value for key, value in ann.items() if value is not None}
    assert desk.refusal("issue.lease_renew", **payload) == failure


def test_a_release_gives_the_work_back_open_and_unassigned(desk: Desk) -> None:
    ann = desk.claim("a", "ann")
    answer = desk.grant("issue.lease_release", **ann)
    assert (answer["issue"]["status"], answer["issue"]["assignee"]) == ("open", "")
    assert "lease" not in answer["issue"]
    assert desk.refusal("issue.lease_release", **ann) == "lease_missing"
    assert desk.claim("a", "ann")["fence"] > ann["fence"]


def contended(desk: Desk) -> Payload:
    """A live lease whose record names another."""
    ann = desk.claim("a", "ann")
    desk.grant("issue.update", **ann, newAssignee="bob")
    return ann


def test_a_contended_lease_is_shown_and_reconciled(desk: Desk) -> None:
    ann = contended(desk)
    projection = desk.grant("issue.lease_projection")
    assert projection["leaseProjection"]["contendedIssueIds"] == ["a"]
    assert projection["items"][0]["contended"] is True
    answer = desk.grant("issue.lease_reconcile", **ann)
    assert answer["issue"]["assignee"] == "ann"
    assert answer["leaseProjection"]["contendedCount"] == 0
    assert desk.refusal("issue.lease_reconcile", **ann) == "lease_not_contended"


def test_a_renewal_mends_a_contended_lease_too(desk: Desk) -> None:
    ann = contended(desk)
    answer = desk.grant("issue.lease_renew", **ann)
    assert (answer["issue"]["assignee"], answer["issue"]["status"]) == ("ann", "in_progress")


@pytest.mark.parametrize("past_s", [0, 7_200])
def test_an_operator_breaks_live_and_lapsed_leases_with_a_reason(desk: Desk, past_s: int) -> None:
    ann = desk.claim("a", "ann")
    desk.time.passes(past_s * 1000)
    assert desk.refusal("issue.lease_break", id="a", reason=" \n ") == "lease_break_reason_missing"
    answer = desk.grant("issue.lease_break", id="a", reason="no sign of life")
    assert answer["effect"]["fence"] == answer["seq"] > ann["fence"]
    assert (answer["issue"]["status"], answer["issue"]["assignee"]) == ("open", "")
    assert desk.refusal("issue.update", **ann, title="x") == "lease_missing"
    assert desk.refusal("issue.lease_break", id="a", reason="x") == "lease_missing"
    assert desk.refusal("issue.lease_break", id="nowhere", reason="x") == "lease_not_found"
    desk.grant("issue.close", id="a")
    assert desk.refusal("issue.lease_break", id="a", reason="x") == "lease_issue_closed"


# --- subleases and instances ----------------------------------------------------------------------


def lent(desk: Desk, *scope: str, **payload: object) -> tuple[Payload, Payload]:
    """A holder, and a subagent with some of its rights."""
    ann = desk.claim("a", "ann", leaseTtlSeconds=600)
    answer = desk.grant(
        "sublease.grant", **ann, newSubleaseId="s1", holder="sub", capabilityScope=scope, **payload
    )
    assert answer["sublease"]["parentLeaseId"] == ann["leaseId"]
    return ann, ann | {"assignee": "sub", "subleaseId": "s1"}


@pytest.mark.parametrize("action", sorted(LENDABLE))
def test_a_subagent_may_do_what_was_lent_and_nothing_else(desk: Desk, action: str) -> None:
    arguments = dict(FENCED)
    ann, sub = lent(desk, action)
    if action != "dep.add":
        desk.grant("dep.add", **ann, dependsOnId="b")
    for other in sorted(LENDABLE - {action}):
        assert desk.refusal(other, **sub, **arguments[other]) == "lease_capability_missing"
    for other in ("issue.lease_renew", "issue.lease_release", "sublease.grant", "instance.open"):
        assert desk.refusal(other, **sub, **arguments[other]) == "lease_capability_missing"
    desk.grant(action, **sub, **arguments[action])
    desk.prove()


def test_a_sublease_ends_on_its_own_deadline_or_with_its_parent(desk: Desk) -> None:
    ann, sub = lent(desk, "issue.update", leaseTtlSeconds=30)
    desk.time.passes(30_000)
    desk.grant("issue.update", **sub, title="on the tick")
    desk.time.passes(1)
    assert desk.refusal("issue.update", **sub, title="late") == "lease_stale"
    desk.grant("issue.update", **ann, title="the holder goes on")
    desk.grant("sublease.revoke", **ann, revokedSubleaseId="s1")
    assert desk.refusal("issue.update", **sub, title="x") == "lease_owner_mismatch"


def test_a_longer_sublease_dies_with_its_parents_term(desk: Desk) -> None:
    ann, sub = lent(desk, "issue.update", leaseTtlSeconds=86_400)
    desk.time.passes(600_001)
    assert desk.refusal("issue.update", **sub, title="x") == "lease_stale"
    again = desk.claim("a", "ann")
    assert desk.refusal("issue.update", **sub, title="x") == "lease_fence_stale"
    risen = sub | {"leaseId": again["leaseId"], "fence": again["fence"]}
    assert desk.refusal("issue.update", **risen, title="x") == "lease_owner_mismatch"
    assert desk.authority.state.subleases == {}
    assert ann["fence"] < again["fence"]


SUBLEASES: list[tuple[str, Payload, str]] = [
    ("sublease.grant", {"leaseTtlSeconds": 1}, "lease_invalid_ttl"),
    ("sublease.grant", {"holder": " "}, "lease_invalid_assignee"),
    ("sublease.grant", {"capabilityScope": ["issue.claim"]}, "lease_capability_unknown"),
    ("sublease.grant", {"newSubleaseId": "s1"}, "lease_sublease_exists"),
    ("sublease.revoke", {"revokedSubleaseId": "s2"}, "lease_sublease_missing"),
    ("instance.open", {"instanceId": "w1"}, "lease_instance_exists"),
    ("instance.close", {"instanceId": "w2"}, "lease_instance_missing"),
]


@pytest.mark.parametrize(("action", "wrong", "failure"), SUBLEASES)
def test_what_hangs_on_a_lease_is_refused_with_a_class(
    desk: Desk, action: str, wrong: Payload, failure: str
) -> None:
    ann, _ = lent(desk, "issue.update")
    desk.grant("instance.open", **ann, instanceId="w1")
    sound: Payload = {"sublease.grant": {"holder": "h", "capabilityScope": []}}.get(action, {})
    assert desk.refusal(action, **ann, **(sound | wrong)) == failure


def test_a_sublease_without_a_name_is_named_after_its_row(desk: Desk) -> None:
    ann = desk.claim("a", "ann")
    scope = ["issue.update", "issue.close", "issue.update"]
    answer = desk.grant("sublease.grant", **ann, holder=" sub ", capabilityScope=scope)
    assert answer["sublease"]["subleaseId"] == f"sub-{answer['seq']}"
    assert answer["sublease"]["holder"] == "sub"
    assert answer["sublease"]["capabilityScope"] == ["issue.close", "issue.update"]


def test_an_instance_shows_the_lease_that_it_works_under(desk: Desk) -> None:
    ann = desk.claim("a", "ann", leaseTtlSeconds=60)
    answer = desk.grant("instance.open", **ann, instanceId="w1", worktreeRef="wt", runtimeRef="rt")
    instance = answer["instance"]
    assert instance.pop("policyDigest") == answer["effect"]["policyDigest"]
    assert instance == {
        "instanceId": "w1",
        "issueId": "a",
        "leaseId": ann["leaseId"],
        "leaseOwner": "ann",
        "leaseTtl": 60,
        "fenceToken": ann["fence"],
        "worktreeRef": "wt",
        "runtimeRef": "rt",
    }
    desk.grant("sublease.grant", **ann, newSubleaseId="s1", holder="h", capabilityScope=[])
    shown = desk.grant("issue.show", id="a")["issue"]
    assert [each["instanceId"] for each in shown["instances"]] == ["w1"]
    assert desk.grant("issue.lease_projection")["items"][0]["subleases"] == shown["subleases"]
    assert desk.grant("issue.lease_projection")["items"][0]["instances"] == shown["instances"]
    desk.grant("instance.close", **ann, instanceId="w1")
    assert desk.grant("issue.show", id="a")["issue"]["instances"] == []


def test_a_claim_by_the_live_holder_ends_nothing_that_hangs_on_the_lease(desk: Desk) -> None:
    ann, sub = lent(desk, "issue.update")
    desk.grant("instance.open", **ann, instanceId="w1")
    desk.claim("a", "ann")
    desk.grant("issue.update", **sub, title="still lent")
    assert desk.authority.state.instances["issue/a"].keys() == {"w1"}


def test_a_holder_is_known_by_the_name_it_claimed_with(desk: Desk) -> None:
    ann = desk.claim("a", " ann ")
    assert desk.refusal("issue.lease_renew", **ann) is None
