"""What a person can do from the page: each a request to the authority, under the person's name.

    cancel retry approve reject    one piece of work: `work` is `issue/ID` or `job/ID`
    break                          the lease of an issue, away from its holder
    pause unpause                  a scope

Which of them may be done, and what it leads to, the authority says; the page shows its answer.
"""

from typing import Any, NamedTuple

from ...contracts import ALL_WORK
from .desk import ConsoleDesk
from .sessions import Visitor

Form = dict[str, str]
Record = dict[str, Any]

# verb -> the actions for an issue and for a job, and what goes with them
_STEERED: dict[str, tuple[str, str, Record]] = {
    "cancel": ("issue.cancel", "job.cancel", {}),
    "retry": ("issue.retry", "job.retry", {}),
    "approve": ("approval.give", "approval.give", {"decision": "approved"}),
    "reject": ("approval.give", "approval.give", {"decision": "rejected"}),
}
VERBS = (*_STEERED, "break", "pause", "unpause")


class ActionDone(NamedTuple):
    """What became of an action, for people."""

    text: str
    answer: Record

    @property
    def is_refused(self) -> bool:
        return bool(self.answer["result"] != "accepted")


async def act(desk: ConsoleDesk, visitor: Visitor, verb: str, form: Form) -> ActionDone:
    """Ask the authority for what a form says; `KeyError` for a verb that there is not."""
    action, payload = _request(verb, form, visitor.name)
    answer = await desk.ask(action, payload)
    if answer["result"] == "accepted":
        return ActionDone(f"{verb}: {_about(form)}, row {answer.get('seq')}", answer)
    classes = ", ".join(answer["failureClasses"])
    return ActionDone(f"{verb} refused: {answer['diagnostic']} ({classes})", answer)


def _request(verb: str, form: Form, name: str) -> tuple[str, Record]:
    said: Record = {"requestId": form["request"]} if form.get("request") else {}
    reason = form.get("reason", "").strip()
    if verb == "unpause":
        return "pause.clear", said | {"scope": form.get("scope") or ALL_WORK}
    family, _, work = form.get("work", "").partition("/")
    if verb == "break":
        why = reason or f"broken by {name} from the console"
        return "issue.lease_break", said | {"id": work, "reason": why}
    said |= {"byName": name} | ({"reason": reason} if reason else {})
    if verb == "pause":
        is_now = {"now": True} if form.get("now") else {}
        return "pause.set", said | {"scope": form.get("scope") or ALL_WORK} | is_now
    of_issue, of_job, more = _STEERED[verb]
    if family == "job":
        return of_job, said | {"jobId": work} | more
    return of_issue, said | {"id": work} | more


def _about(form: Form) -> str:
    return form.get("work") or form.get("scope") or "all work"
