"""Carries what the dispatcher asks through the coordinator's door, and brings the answers back.

`calls_of` and `events_of` say how each effect is spelled as host actions on issues and what their
answers mean; they are pure, and `jobs.Jobs` has others. `Clerk` has the connection. It blocks while
the authority is slow or away, and so belongs beside the dispatcher, not in its way: into a cell or
a thread of its own.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, assert_never, get_args

from ...authority import Unavailable
from ...authority.service import client
from ...contracts import Reason, contract_digest, host_actions, rfc3339
from . import orders
from .answers import Answer, Call, class_of, refusal, renewed, tokens_of
from .orders import Ask, Effect, Event, Holder

_ASKS = get_args(Ask)
_CALLS_MAX = 1_024  # in flight at once
_RETRY_SECONDS = 2.0  # how long a lost sidecar is waited for; then the dispatcher decides
_SILENCE_SECONDS = 5.0  # of a sidecar that is there


class Dialect(Protocol):
    """How the orders of a dispatcher are spelled, and what comes back; pure."""

    def calls_of(self, ask: Ask) -> list[Call]: ...

    def events_of(self, ask: Ask, answers: Sequence[Answer]) -> list[Event]: ...


class Clerk:
    """A connection to the sidecar of a state directory, made when it is needed."""

    def __init__(
        self,
        state_dir: Path,
        *,
        dialect: Dialect | None = None,
        instruction_ref: str | None = None,
        retry_seconds: float = _RETRY_SECONDS,
    ) -> None:
        """An instruction is evidence that changes bring along, where the policy wants some."""
        self._state_dir = state_dir
        self._dialect = dialect or Issues()
        self._instruction_ref = instruction_ref
        self._retry_seconds = retry_seconds
        self._client: client.Client | None = None

    def perform(self, effects: Sequence[Effect]) -> list[Event]:
        """Ask all that is to be asked, in order and in flight together; what came of it."""
        asks = [each for each in effects if isinstance(each, _ASKS)]
        spelled = [self._dialect.calls_of(ask) for ask in asks]
        try:
            answers = iter(self._asked([call for calls in spelled for call in calls]))
        except Unavailable:
            self.close()
            return [orders.Unanswered(token) for ask in asks for token in tokens_of(ask)]
        return [
            event
            for ask, calls in zip(asks, spelled, strict=True)
            for event in self._dialect.events_of(ask, [next(answers) for _ in calls])
        ]

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _asked(self, calls: list[Call]) -> Iterator[Answer]:
        if not calls:
            return iter(())
        if self._client is None:
            self._client = client.Client(
                self._state_dir,
                "coordinator",
                retry_seconds=self._retry_seconds,
                silence_seconds=_SILENCE_SECONDS,
            )
        evident = [self._evident(call) for call in calls]
        answers: list[Answer] = []
        for start in range(0, len(evident), _CALLS_MAX):
            answers += self._client.ask_many(evident[start : start + _CALLS_MAX])
        return iter(answers)

    def _evident(self, call: Call) -> Call:
        """The call, with the evidence that a strict policy asks of changes."""
        capability = host_actions()[call.action].capability
        if self._instruction_ref is None or capability is None:
            return call
        context = {
            "policyDigest": contract_digest(),
            "instructionRef": self._instruction_ref,
            "capabilityClaims": [capability],
        }
        return call._replace(context=context)


class Issues:
    """The dialect of issues."""

    def calls_of(self, ask: Ask) -> list[Call]:
        return calls_of(ask)

    def events_of(self, ask: Ask, answers: Sequence[Answer]) -> list[Event]:
        return events_of(ask, answers)


# --- how it is spelled ----------------------------------------------------------------------------


def calls_of(ask: Ask) -> list[Call]:
    """The host actions that an effect stands for; `requestId` makes a change happen once."""
    match ask:
        case orders.AskDiagnostics():
            return [Call("dep.diagnostics", {})]
        case orders.AskReady():
            return [Call("issue.ready", {})]
        case orders.AskHeld():
            return [Call("issue.list", {"status": "in_progress"})]
        case orders.AskIssues(_, issue_ids):
            return [Call("issue.show", {"id": each}) for each in issue_ids]
        case orders.Claim(token, issue_id, assignee, ttl_seconds):
            claim = {"id": issue_id, "assignee": assignee, "leaseTtlSeconds": ttl_seconds}
            # The answer to a claim is short; whoever does the work wants the whole issue.
            return [
                Call("issue.claim", claim | {"requestId": token}),
                Call("issue.show", {"id": issue_id}),
            ]
        case orders.RenewMany(renewals):
            return [_renew(each) for each in renewals]
        case orders.Close(token, holder):
            return [Call("issue.close", _held(holder, token))]
        case orders.Release(token, holder):
            return [Call("issue.lease_release", _held(holder, token))]
        case orders.Discover(token, holder, new_id, title, description, labels):
            filed = {"newId": new_id, "title": title, "description": description}
            return [Call("issue.discover", _held(holder, token) | filed | {"labels": list(labels)})]
        case orders.Amend(token, holder, status, notes):
            members = {"status": status, "notes": notes}
            given = {name: value for name, value in members.items() if value is not None}
            return [Call("issue.update", _held(holder, token) | given)]
        case orders.Expire():
            raise AssertionError("an issue whose lease has lapsed is claimed as it is")
        case _:
            assert_never(ask)


def _renew(renewal: orders.Renewal) -> Call:
    held = _held(renewal.holder, renewal.token)
    return Call("issue.lease_renew", held | {"leaseTtlSeconds": renewal.ttl_seconds})


def _held(holder: Holder, token: str) -> dict[str, Any]:
    return {
        "id": holder.issue_id,
        "assignee": holder.assignee,
        "leaseId": holder.lease_id,
        "fence": holder.fence,
        "requestId": token,
    }


# --- what it means --------------------------------------------------------------------------------


def events_of(ask: Ask, answers: Sequence[Answer]) -> list[Event]:
    """What the answers to `calls_of` mean."""
    if isinstance(ask, orders.RenewMany):
        return renewed(ask, answers)
    if isinstance(ask, orders.AskIssues):
        answers = [each for each in answers if class_of(each) != Reason.ISSUE_NOT_FOUND.wire]
    refused = refusal(ask.token, answers)
    if refused is not None:
        return [refused]
    if isinstance(ask, orders.Claim) and not _is_current(*answers):
        return [
            orders.Refused(ask.token, Reason.FENCE_STALE.wire, "it was granted, and lost since")
        ]
    return [_event(ask, answers)]


def _is_current(claim: Answer, show: Answer) -> bool:
    """Whether a grant stands: a claim that is asked again gets its first answer, however old."""
    lease = show["issue"].get("lease", {})
    return bool(lease.get("fence") == claim["issue"]["lease"]["fence"])


def _event(ask: Ask, answers: Sequence[Answer]) -> Event:
    match ask:
        case orders.AskDiagnostics(token):
            links = [(each["issueId"], each["dependsOnId"]) for each in answers[0]["missing"]]
            return orders.Diagnosed(token, tuple(map(tuple, answers[0]["cycles"])), tuple(links))
        case orders.AskReady(token):
            issues = tuple(listing(each) for each in answers[0]["issues"])
            lapsed = tuple(answers[0]["leaseProjection"]["staleIssueIds"])
            return orders.Listed(token, issues, lapsed, is_whole=not answers[0]["truncated"])
        case orders.AskHeld(token, prefixes):
            leases = tuple(_ours(answers[0], prefixes))
            return orders.Held(token, leases, is_whole=not answers[0]["truncated"])
        case orders.AskIssues(token):
            return orders.Shown(token, tuple(_story(each) for each in answers))
        case orders.Claim(token):
            claim, show = answers
            issue = claim["issue"]
            return orders.Claimed(token, _holder(issue), issue["attempts"], show["issue"])
        case orders.Close(token) | orders.Release(token):
            return orders.Settled(token)
        case orders.Discover(token) | orders.Amend(token):
            return orders.Settled(token)
        case orders.RenewMany() | orders.Expire():
            raise AssertionError("renewals have an event for all, and nobody expires an issue")
        case _:
            assert_never(ask)


def listing(issue: Answer) -> orders.Listing:
    """A line of `issue.ready`."""
    return orders.Listing(
        issue["id"],
        issue["attempts"],
        issue["assignee"],
        issue["issueType"],
        tuple(issue.get("labels", ())),
    )


def _ours(answer: Answer, prefixes: tuple[str, ...]) -> Iterator[orders.HeldIssue]:
    for issue in answer["issues"]:
        lease = issue.get("lease")
        if lease is not None and lease["owner"].startswith(prefixes):
            remaining_ms = -_since_ms(answer, lease["expiresAt"])
            labels = tuple(issue.get("labels", ()))
            yield orders.HeldIssue(_holder(issue), issue["attempts"], remaining_ms, labels)


def _story(answer: Answer) -> orders.Story:
    issue = answer["issue"]
    lease = issue.get("lease")
    is_lapsed = lease is not None and lease["state"] == "stale"
    return orders.Story(
        issue_id=issue["id"],
        status=issue["status"],
        attempts=issue["attempts"],
        quiet_ms=_since_ms(answer, lease["expiresAt"] if is_lapsed else issue["updatedAt"]),
        is_lapsed=is_lapsed,
        notes=issue["notes"],
        labels=tuple(issue.get("labels", ())),
        issue_type=issue["issueType"],
    )


def _holder(issue: Answer) -> Holder:
    lease = issue["lease"]
    return Holder(issue["id"], lease["owner"], lease["leaseId"], lease["fence"])


def _since_ms(answer: Answer, moment: str) -> int:
    """How long ago a moment was, by the clock of the authority."""
    now_ms: int = answer["stamp"]["wallMs"]
    return now_ms - (rfc3339.parse_ms(moment) or 0)
