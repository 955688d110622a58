"""Random walks over few issues with few names, so that everybody meets everybody."""

import random
from collections.abc import Iterator
from typing import Any

import orjson

from tests.fakes.policy import passed, policy
from understudy.contracts import canonical, contract_digest
from understudy.contracts.requests.request import Door
from understudy.contracts.requests.shapes import Transport

DEMANDS = tuple(policy(closeRequires=each) for each in ("witness", "none"))
START_MS = 1_800_000_000_000
NAMES = ("ada", "bob", " ada ", "Zoë", "é", 'a"b', "", "x" * 65, "x" * 64, "a_b c", "___", "\u3000")
IDS = (*(f"a-{number}" for number in range(12)), "A_9", "zz", "missing")
BUDGETS = (
    ("issue/{}", "work", 90), ("issue/{}", "attempt", 90), ("*", "work", 400), ("*", "day", 900),
    ("*", "label", 900), ("label/x", "label", 900), ("*", "tree", 2_000),
)  # fmt: skip
REASONS = ("done", "", 'she said "no"\n', "é" * 600, "x" * 1025)
TEXTS = (
    "2027-01-15T09:00:00Z", " 2027-01-15T09:00:00.5+00:00 ", "never", "", "2027-01-15t08:20:00z",
    "2027-01-15T08:00:00Z", "\u00a0", "1969-12-31T23:59:59Z", 'say "when"',
)  # fmt: skip


class Walk:
    """Lines through doors; it reads the answers, so that it can show fences that exist."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_ms = START_MS
        self.held: dict[str, dict[str, Any]] = {}
        self.count = 0
        self.strict = False
        self.witness: dict[str, Any] = {}
        self.said: list[tuple[str, dict[str, Any]]] = []  # what operators will take back
        self.gluer: dict[str, Any] = {"target": "main", "gluer": "gil"}
        self.newest = ""  # the issue of the last lease that was heard of
        self.sections: list[str] = []  # that were recorded, oldest first

    def lines(self, count: int) -> Iterator[tuple[bytes, Door]]:
        for number in range(8):
            yield self._line("issue.add", {"id": IDS[number], "title": f'T {number} "é"'})
        for _ in range(count - 8):
            yield self._next()

    def heard(self, answer: bytes) -> None:
        value = orjson.loads(answer)
        self.witness = value.get("witness", self.witness)
        self._heard_of_glue(value)
        lease = value.get("issue", {}).get("lease")
        if value["result"] != "accepted" or lease is None:
            return
        issue_id = self.newest = value["issue"]["id"]
        self.held[issue_id] = {
            "id": issue_id,
            "assignee": lease["owner"],
            "leaseId": lease["leaseId"],
            "fence": lease["fence"],
        }

    def _heard_of_glue(self, value: dict[str, Any]) -> None:
        if "section" in value:
            self.sections.append(value["section"]["sectionId"])
        if lease := value.get("glue", {}).get("lease"):
            self.gluer |= {"leaseId": lease["leaseId"], "fence": lease["fence"]}
        over = {*value.get("closed", ()), value.get("obstruction", {}).get("section", "/")}
        self.sections = [each for each in self.sections if not {each, each.split("/")[0]} & over]

    def _next(self) -> tuple[bytes, Door]:
        self.count += 1
        rng = self.random
        self._pass_time()
        kind = rng.random()
        if self.strict and kind < 0.2:
            return self._relax()
        if self.said and kind < 0.1:
            return self._evident(*self.said.pop(0))
        if kind < 0.04:
            return self._hostile(), self._door()
        if kind < 0.80:
            return self._hot()
        return self._cold()

    def _pass_time(self) -> None:
        rng = self.random
        kind = rng.random()
        if kind < 0.10:
            self.now_ms += rng.choice((1, 7, 999, 1000, 30_000))
        elif kind < 0.12:
            self.now_ms += rng.choice((3_600_000, 3_600_001, 3_599_999))
        elif kind < 0.13:
            self.now_ms -= 50_000

    def _hot(self) -> tuple[bytes, Door]:
        rng = self.random
        action = rng.choice(
            (
                "issue.claim",
                "issue.claim",
                "issue.lease_renew",
                "issue.lease_release",
                "issue.close",
            )
        )
        if action == "issue.claim":
            payload: dict[str, Any] = {"id": rng.choice(IDS), "assignee": self._name()}
            if rng.random() < 0.2:
                payload["leaseId"] = rng.choice(
                    ("mine", " m ", "", None, 'q"', "l" * 225, "l" * 224)
                )
            if rng.random() < 0.1:
                payload["fence"] = rng.choice((0, 1, 50, 10_000, None))
        else:
            payload = self._shown()
        if action in ("issue.claim", "issue.lease_renew"):
            self._timed(payload)
        if action == "issue.lease_release" and rng.random() < 0.2:
            payload["handedBack"] = rng.choice((True, False, None))
        if action == "issue.close" and rng.random() < 0.2:
            payload["reason"] = rng.choice(REASONS)
        return self._line(action, payload)

    def _shown(self) -> dict[str, Any]:
        rng = self.random
        if not self.held or rng.random() < 0.05:
            return {"id": rng.choice(IDS)}
        payload = dict(self.held[rng.choice(sorted(self.held))])
        if rng.random() < 0.15:
            payload["fence"] = rng.choice((0, payload["fence"] - 1, payload["fence"] + 1, None, -1))
        if rng.random() < 0.06:
            payload["assignee"] = self._name()
        if rng.random() < 0.06:
            payload["leaseId"] = rng.choice(("other", "", " ", None))
        if rng.random() < 0.06:
            payload.pop(rng.choice(sorted(payload)))
        if rng.random() < 0.03:
            payload["subleaseId"] = rng.choice((None, "s1"))
        return payload

    def _timed(self, payload: dict[str, Any]) -> None:
        rng = self.random
        kind = rng.random()
        if kind < 0.5:
            payload["leaseTtlSeconds"] = rng.choice((30, 31, 60, 3600, 86_400, 86_400))
        elif kind < 0.55:
            payload["leaseTtlSeconds"] = rng.choice((29, 86_401, -1, 0, None, 2**53 - 1, 2**53))
        elif kind < 0.60:
            payload["leaseExpiresAt"] = rng.choice(TEXTS)
        elif kind < 0.62:
            payload |= {"leaseExpiresAt": rng.choice(TEXTS), "leaseTtlSeconds": 60}

    def _budget(self, one: str) -> tuple[str, dict[str, Any]]:
        scope, per, cap = self.random.choice(BUDGETS)
        scope = scope.format(one)
        if self.random.random() < 0.5:
            return "budget.clear", {"scope": scope}
        return "budget.set", {"scope": scope, "per": per, "tokensMax": cap}

    def _cold(self) -> tuple[bytes, Door]:
        rng = self.random
        one, other = rng.choice(IDS), rng.choice(IDS)
        held = self.held.get(one, {"id": one})
        choices: list[tuple[str, dict[str, Any]]] = [
            (
                "issue.add",
                {"id": one, "title": "T", "labels": ["x", "é"], "assignee": self._name()},
            ),
            ("issue.add", {"title": "T"}),
            ("issue.update", {"id": one, "status": "open"}),
            ("issue.update", {**held, "status": rng.choice(("open", "blocked", "closed"))}),
            ("issue.update", {**held, "newAssignee": rng.choice(("ada", "eve", ""))}),
            ("issue.update", {**held, "title": 'N \\ "t"', "owner": "o", "priority": 1}),
            ("issue.lease_reconcile", dict(held)),
            ("issue.lease_break", {"id": one, "reason": "broken"}),
            ("issue.claim_next", {"assignee": "ada"}),
            ("spend.report", {**held, "tokens": rng.choice((1, 40, 100)), "usdMicros": 3}),
            self._budget(one),
            ("spend.show", {}),
            ("issue.list", {}),
            ("issue.show", {"id": one}),
            ("issue.lease_projection", {}),
            ("dep.add", {"id": one, "dependsOnId": other}),
            ("dep.remove", {"id": one, "dependsOnId": other}),
            ("sublease.grant", {**held, "holder": "sub", "capabilityScope": ["issue.close"]}),
            ("instance.open", {**held, "instanceId": "i1"}),
            ("fiber.spawn", {**held, "taskRef": "t", "fiberId": rng.choice(("f1", "f2"))}),
            ("fiber.spawn", {**held, "taskRef": "t", "fiberId": "f3", "parentFiberId": "f1"}),
            ("fiber.join", {**held, "fiberId": rng.choice(("f1", "f3"))}),
            ("fiber.cancel", {**held, "wholeScope": True}),
            ("job.schedule", {"jobId": one, "kind": "k", "causalDeps": [f"complete/{other}"]}),
            ("job.schedule", {"jobId": one, "kind": "k"}),
            ("job.claim", {"jobId": one, "worker": "ada"}),
            ("job.roster", {"query": "overdue"}),
            ("spec.submit", {"specId": one, "steps": [{"stepKey": "a", "kind": "k"}]}),
            ("spec.claim", {"specId": one, "runner": "ada"}),
            ("spec.materialize", {"specId": one, "runner": "ada", "stepKeys": ["a"]}),
            ("dispatch.claim", {"jobId": f"{one}:a", "dispatcher": "ada"}),
            ("dispatch.roster", {}),
        ]
        if rng.random() < 0.02:
            self.strict = True
            return self._line("policy.set", {"mutation": "instruction-linked"}, "cli")
        if rng.random() < 0.03:
            return self._line("policy.set", {"checks": rng.choice(DEMANDS)}, "cli")
        if rng.random() < 0.06:
            return self._steered(one)
        if rng.random() < 0.25:
            return self._glued(one, other, self.held.get(self.newest, held))
        if rng.random() < 0.1:
            results = {"changedPaths": ["a.txt"], "results": passed("lint")}
            return self._line("required.witness", held | results, "cli")
        if rng.random() < 0.1:
            return self._line("required.witness_decide", {"witness": self.witness})
        if rng.random() < 0.4:
            return self._line("issue.update", {"id": one, "status": "open"})
        return self._line(*rng.choice(choices))

    def _glued(self, one: str, other: str, held: dict[str, Any]) -> tuple[bytes, Door]:
        """Sections and their glue; C hands all work of covers, and what waits, to the reference."""
        rng = self.random
        old, new, tree = ("0" * 40, "1" * 40, "2" * 40)
        known = {"paths": ["a"], "pathCount": 1, "pathsDigest": "d"}
        made = {"target": "main", "base": old, "commit": new, "tree": tree, **known}
        first = [*self.sections[: rng.choice((1, 1, 2))]] or [f"{one}/1"]
        found = {"kind": "conflict", "onto": old, "ontoTree": tree, "section": first[0]}
        end = {"end": rng.choice(("return", "file", "stop"))}
        named = {"coverId": rng.choice(("c1", "c2")), "target": "main", "base": old}
        action, payload = rng.choice((
            *(("descent.section", {**held, **made}),) * 4,
            ("glue.claim", {**self.gluer, "leaseDurationMs": 86_400_000}),
            ("glue.claim", {"target": "main", "gluer": "gil", "leaseDurationMs": 86_400_000}),
            ("descent.cover", {**named, "issues": [one, other]}),
            ("descent.abort", {"coverId": named["coverId"]}),
            *(("descent.glue", {
                **self.gluer, "sections": first, "old": old, "new": new, "tree": tree,
                "moved": True,
            }),) * 3,
            ("descent.seal", {**self.gluer, "result": "moved", "head": new}),
            ("descent.seal", {**self.gluer, "result": "void", "head": old}),
            ("descent.obstruct", {**self.gluer, **found, **end}),
            ("descent.show", {}),
        ))  # fmt: skip
        return self._line(action, dict(payload), rng.choice(("cli", "cli", "cli", "mcp")))

    def _steered(self, one: str) -> tuple[bytes, Door]:
        """What operators say, and soon take back: C hands such work to the reference."""
        rng = self.random
        scope = rng.choice((f"issue/{one}", "*", "label/x"))
        said, taken_back = rng.choice((
            (("issue.cancel", {"id": one, "reason": 'wr"ong', "byName": "é"}),
             ("issue.retry", {"id": one, "byName": 'e"ve'})),
            (("pause.set", {"scope": scope, "now": rng.random() < 0.5}),
             ("pause.clear", {"scope": scope})),
            (("approval.ask", self.held.get("zz", {"id": "zz"})),
             ("approval.give", {"id": "zz", "decision": rng.choice(("approved", "rejected"))})),
            (("policy.set", {"approve": ["label/é"]}), ("policy.set", {"approve": []})),
            (("issue.prioritize", {"id": one, "priority": 0}), ("issue.retry", {"id": one})),
        ))  # fmt: skip
        self.said.append(taken_back)
        return self._line(said[0], dict(said[1]), "cli")

    def _relax(self) -> tuple[bytes, Door]:
        """Mutations need evidence no more; this one brings it."""
        self.strict = False
        return self._evident("policy.set", {"mutation": "open"})

    def _evident(self, action: str, payload: dict[str, Any]) -> tuple[bytes, Door]:
        context = {
            "policyDigest": contract_digest(),
            "instructionRef": "i",
            "capabilityClaims": ["capabilities.change_morphisms.all"],
        }
        value = {"action": action, "payload": payload, "context": context}
        return canonical.encode(value), Door("cli")

    def _line(
        self, action: str, payload: dict[str, Any], door: Transport | None = None
    ) -> tuple[bytes, Door]:
        rng = self.random
        value: dict[str, Any] = {"action": action, "payload": payload}
        if rng.random() < 0.2:
            payload["requestId"] = f"r{rng.randrange(self.count // 2 + 10)}"
        if rng.random() < 0.3:
            marks = (self.count, "mark", 'm"é', None, "m" * 256, "m" * 257, True)
            value["id"] = rng.choice(marks if rng.random() < 0.1 else marks[:3])
        if rng.random() < 0.1:
            value["context"] = rng.choice((
                {}, None, {"transport": "cli"}, {"transport": "mcp", "escalatedFrom": "cli"},
                {"transport": "coordinator"}, {"escalatedFrom": None}, {"escalatedFrom": "mcp"},
                {"policyDigest": "x"}, {"instructionRef": "i"}, {"transport": "fax"},
                {"stamp": {"wallMs": self.now_ms + 100, "counter": 3, "node": "n"}},
            ))  # fmt: skip
        doors: tuple[Transport, ...] = ("mcp",) * 8 + ("coordinator", "cli")
        through = rng.choice(doors) if door is None else door
        frozen = rng.random() < 0.97
        if rng.random() < 0.9:
            value["now"] = self.now_ms
        data = canonical.encode(value) if rng.random() < 0.7 else orjson.dumps(value)
        return data, Door(through, frozen_clock=frozen)

    def _hostile(self) -> bytes:
        data, _ = self._hot()
        at = self.random.randrange(len(data))
        return self.random.choice((
            data[:at],
            data[:at] + b"\xff" + data[at:],
            data[:at] + data[at + 1 :],
            data.replace(b'"payload"', b'"payload":{},"payload"'),
            data.replace(b'"id"', b'"\\u0069d"'),
            data.replace(b"ada", b"\\u0061da"),
            b" " + data + b"\n",
            b"[" + data + b"]",
            b"",
            data + b" " * 20_000,
        ))  # fmt: skip

    def _door(self) -> Door:
        return Door(self.random.choice(("mcp", "cli")), frozen_clock=True)

    def _name(self) -> str:
        return (
            self.random.choice(NAMES)
            if self.random.random() < 0.08
            else self.random.choice(NAMES[:2])
        )
