"""Carries what the dispatcher asks through the coordinator's door, and brings the answers back.

`Issues` says how each effect is spelled as host actions on issues, and what their answers mean.
`Clerk` has the connection. It blocks while the authority is slow or away, and so belongs beside the
dispatcher, not in its way: into a cell or a thread of its own.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

from ...authority import Unavailable
from ...authority.service import client
from ...contracts import ESCALATION, Reason, contract_digest, host_actions, rfc3339
from ..leasing.outstanding import Answer
from ..leasing.work_kind import WORK
from . import orders
from .dialect import Call, Dialect, named, tokens_of
from .orders import Ask, Effect, Event

_ASKS = get_args(Ask)
_CALLS_MAX = 1_024  # in flight at once
_RETRY_SECONDS = 2.0  # how long a lost sidecar is waited for; then the dispatcher decides
_SILENCE_SECONDS = 5.0  # of a sidecar that is there


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
            answers = iter(self._ask_all([call for calls in spelled for call in calls]))
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

    def _ask_all(self, calls: list[Call]) -> Iterator[Answer]:
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


class Issues(Dialect):
    """The dialect of issues."""

    kind = WORK["issue"]
    absent = Reason.ISSUE_NOT_FOUND

    # --- how it is spelled ----------------------------------------------------------------------

    def _calls_of(self, ask: Ask) -> list[Call]:
        match ask:
            case orders.AskDiagnostics():
                return [Call("dep.diagnostics", {})]
            case orders.AskReady():
                return [Call("issue.ready", {})]
            case orders.AskHeld():
                return [Call("issue.list", {"status": "in_progress"})]
            case orders.CloseWork(token, holder, artifacts):
                return [named(token, *self.kind.completion(holder, artifacts))]
            case orders.Discover(token, holder, new_id, title, description, labels):
                filed = {"newId": new_id, "title": title, "description": description}
                filed |= self.kind.proof(holder) | {"labels": list(labels)}
                filed |= {"issueType": ESCALATION}  # it waits for a person
                return [named(token, "issue.discover", filed)]
            case orders.Amend(token, holder, status, notes):
                members = {"status": status, "notes": notes}
                given = {name: value for name, value in members.items() if value is not None}
                return [named(token, "issue.update", self.kind.proof(holder) | given)]
            case _:
                raise AssertionError("an issue whose lease has lapsed is claimed as it is")

    # --- what it means --------------------------------------------------------------------------

    def _event(self, ask: Ask, answers: Sequence[Answer]) -> Event:
        match ask:
            case orders.AskDiagnostics(token):
                links = [(each["issueId"], each["dependsOnId"]) for each in answers[0]["missing"]]
                cycles = tuple(map(tuple, answers[0]["cycles"]))
                return orders.Diagnosed(token, cycles, tuple(links))
            case orders.AskReady(token):
                issues = tuple(listing(each) for each in answers[0]["issues"])
                lapsed = tuple(answers[0]["leaseProjection"]["staleIssueIds"])
                return orders.Listed(token, issues, lapsed, is_whole=not answers[0]["truncated"])
            case orders.AskHeld(token, prefixes):
                leases = tuple(self._ours(answers[0], prefixes))
                return orders.Held(token, leases, is_whole=not answers[0]["truncated"])
            case orders.AskIssues(token):
                return orders.Shown(token, tuple(_story(each) for each in answers))
            case _:
                return super()._event(ask, answers)

    def _ours(self, answer: Answer, prefixes: tuple[str, ...]) -> Iterator[orders.HeldIssue]:
        for issue in answer["issues"]:
            lease = issue.get("lease")
            if lease is not None and lease["owner"].startswith(prefixes):
                remaining_ms = -_since_ms(answer, lease["expiresAt"])
                labels = tuple(issue.get("labels", ()))
                holder = self.kind.held(issue)
                known = (labels, issue.get("excused", 0), _since_ms(answer, lease["acquiredAt"]))
                yield orders.HeldIssue(
                    holder, issue["attempts"], remaining_ms, *known, issue["title"]
                )


def listing(issue: Answer) -> orders.Listing:
    """A line of `issue.ready`."""
    return orders.Listing(
        issue["id"],
        issue["attempts"],
        issue["assignee"],
        issue["issueType"],
        tuple(issue.get("labels", ())),
        issue.get("excused", 0),
    )


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
        excused=issue.get("excused", 0),
    )


def _since_ms(answer: Answer, moment: str) -> int:
    """How long ago a moment was, by the clock of the authority."""
    now_ms: int = answer["stamp"]["wallMs"]
    return now_ms - (rfc3339.parse_ms(moment) or 0)
