"""What each tool teaches an agent: one hand-written row per action, and what to do on a refusal.

The catalogue, the agent's guide and `docs/mcp.md` are made from these tables.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lesson:
    """A tool's title, its description, and the members of the answer that are its own."""

    title: str
    text: str
    gives: tuple[str, ...] = ()


_LEASED = ("issue", "leaseProjection", "orphanedFibers")
_LISTED = ("issues", "count", "truncated")
_PROOF = "Pass leaseId and fence as the claim returned them."

WORK_NEXT = Lesson(
    "Take the next piece of work",
    "Start here. Claims the first issue that is ready and returns all you need in one call: the "
    "issue, your lease (leaseId, fence, expiresAt), a brief (description, acceptance criteria, "
    "design, notes, results of what it depended on) and the hand-over of its last holder. "
    "Exactly one agent gets each issue. Keep leaseId and fence: every later change needs them. "
    "The lease is renewed for you while you stay connected. Nothing ready is a normal answer that "
    "says what is blocked and when to ask again; waitSeconds waits for work instead. With "
    "worktree: true you get a git worktree and branch of your own: work there, not in the main "
    "tree.",
)
WORK_HANDOVER = Lesson(
    "Hand work over",
    "Use when you cannot finish: stores a checkpoint (summary, what is done, what is next, "
    "artifacts) for the next holder, and releases the issue. With keep: true you go on holding it; "
    "do that before anything risky. What is in your worktree is kept for the next holder. "
    + _PROOF,
)
WORK_COMPLETE = Lesson(
    "Finish work",
    "Closes the issue under your fence; the lease ends with it. Call it when the acceptance "
    "criteria are met and your changes are saved. A result is kept for those who depend on it. "
    "Fibers that still run must be joined or cancelled first. In a worktree it commits what "
    "changed and runs the required checks; if they pass, the change is glued to its target, and if "
    "not, you go on. " + _PROOF,
)

LESSONS: dict[str, Lesson] = {
    "issue.claim": Lesson(
        "Claim one issue",
        "Takes a lease on a certain issue; to take whatever is ready use work_next. Returns "
        "issue.lease with leaseId and fence: keep both. If you hold it already, you get more time "
        "and the same fence. On lease_contention_active another agent has it: take other work.",
        _LEASED,
    ),
    "issue.claim_next": Lesson(
        "Claim the next ready issue",
        "Claims the first ready issue by priority, then age. work_next does the same and returns "
        "the whole brief; use this one only where the bare answer is enough. Without `issue` in "
        "the answer nothing is ready; `pauses` and `waitsForPerson` say what people withhold.",
        (*_LEASED, "pauses", "waitsForPerson"),
    ),
    "issue.lease_renew": Lesson(
        "Renew a lease",
        "Moves the deadline of your lease. You rarely need it: leases are renewed while you stay "
        "connected. " + _PROOF + " On lease_stale or lease_fence_stale stop at once.",
        _LEASED,
    ),
    "issue.lease_release": Lesson(
        "Release an issue",
        "Gives an issue back, open and unassigned, without a word to the next holder. If you have "
        "done anything, use work_handover instead. " + _PROOF,
        _LEASED,
    ),
    "issue.lease_reconcile": Lesson(
        "Reconcile a contended lease",
        "Makes an issue whose record disagrees with your lease follow the lease again. " + _PROOF,
        _LEASED,
    ),
    "issue.lease_break": Lesson(
        "Break another's lease",
        "For operators, and refused unless one has granted it to you: takes a lease away from its "
        "holder, whose fence is refused from then on. Ask a person before you use it.",
        _LEASED,
    ),
    "issue.cancel": Lesson(
        "Cancel an issue",
        "For operators: gives an issue up. Its holder is stopped and refused from then on, and no "
        "claim is granted until issue_retry. Ask a person before you use it.",
        ("issue", "orphanedFibers"),
    ),
    "issue.retry": Lesson(
        "Try an issue again",
        "For operators: what is blocked, cancelled or resting is open at once, with attempts anew.",
        ("issue",),
    ),
    "issue.prioritize": Lesson(
        "Change the priority of an issue",
        "For operators: another priority, whether or not the issue is held. Small is urgent.",
        ("issue",),
    ),
    "job.cancel": Lesson(
        "Cancel a job",
        "For operators: gives a job up, once and for all; its holder is stopped and refused.",
        ("job", "opId"),
    ),
    "job.retry": Lesson(
        "Try a job again",
        "For operators: a job whose attempts are spent, or that was rejected, can be claimed at "
        "once, with attempts anew.",
        ("job", "opId"),
    ),
    "pause.set": Lesson(
        "Pause work",
        "For operators: no new claims in a scope (`*`, `label/L`, `kind/K`, `issue/ID`, `job/ID`). "
        "What runs goes on; with now: true it is handed back.",
        ("pause", "handedBack", "handedBackCount"),
    ),
    "pause.clear": Lesson(
        "Let paused work go on",
        "For operators: this very scope is not paused any more.",
        ("pause",),
    ),
    "pause.list": Lesson(
        "List pauses",
        "What is paused, by whom and why. On work_paused take other work, or wait.",
        ("pauses", "count"),
    ),
    "approval.ask": Lesson(
        "Ask a person for approval",
        "The issue waits for a person from now on. If you hold it, you hand it back by asking, and "
        "say in the reason what the person should know. Pass assignee, leaseId and fence if you "
        "hold it. Where your client can, it asks its person at once, and the answer has the "
        "decision.",
        ("issue", "orphanedFibers"),
    ),
    "approval.give": Lesson(
        "Approve or reject",
        "For operators: a person lets an issue (id) or a job (jobId) go on that waits for that, or "
        "refuses it.",
        ("issue", "job", "opId"),
    ),
    "issue.lease_projection": Lesson(
        "List leases",
        "Every lease with its holder, fence and deadline, and which are stale or contended.",
        ("leaseProjection", "items"),
    ),
    "issue.add": Lesson(
        "Add an issue",
        "Files new work. Give it acceptance criteria that another agent can check. What you find "
        "while you work on something belongs into issue_discover.",
        ("issue",),
    ),
    "issue.update": Lesson(
        "Change an issue",
        "Changes members of an issue; what you leave out stays. A leased issue is changed by its "
        "holder alone: " + _PROOF[0].lower() + _PROOF[1:] + " A status other than in_progress ends "
        "the lease.",
        ("issue", "orphanedFibers"),
    ),
    "issue.close": Lesson(
        "Close an issue",
        "Closes an issue; work_complete does the same and keeps a result. On fiber_scope_open join "
        "or cancel your fibers first. " + _PROOF,
        ("issue", "orphanedFibers"),
    ),
    "issue.discover": Lesson(
        "File what you found",
        "A new issue that you came across while working on `id`; it remembers where it came from. "
        "Use it instead of doing work that you were not asked for. " + _PROOF,
        ("issue", "discoveredFrom"),
    ),
    "issue.handover": Lesson(
        "Store a checkpoint",
        "Keeps a checkpoint for the next holder; the lease goes on. work_handover does this and "
        "releases. " + _PROOF,
        ("handover",),
    ),
    "issue.list": Lesson(
        "List issues", "Issues by id, all or by status, label, type or assignee.", _LISTED
    ),
    "issue.show": Lesson(
        "Show an issue",
        "One issue whole: texts, dependencies, lease, subleases, fibers, hand-over.",
        ("issue",),
    ),
    "issue.ready": Lesson(
        "List ready work",
        "What work_next would hand out, in that order. Looking does not reserve: claim it.",
        (*_LISTED, "leaseProjection", "pauses", "waitsForPerson"),
    ),
    "issue.blocked": Lesson(
        "List blocked work", "Unfinished issues that wait, each with what it waits for.", _LISTED
    ),
    "issue.check": Lesson(
        "Check the store",
        "Recomputes the invariants of the store from its records.",
        ("sound", "broken", "issueCount", "leaseCount", "leaseProjection"),
    ),
    "issue.backend_status": Lesson(
        "Count what there is",
        "How many issues, leases and ready issues there are, and the policy in force.",
        ("issueCount", "leaseCount", "readyCount", "policy"),
    ),
    "dep.add": Lesson(
        "Add a dependency",
        "Says that `id` waits for `dependsOnId` (blocks), or relates to it in another way. If `id` "
        "is leased, only its holder may. On dep_cycle the path is in the diagnostic.",
        ("dependency",),
    ),
    "dep.remove": Lesson("Remove a dependency", "The issue no longer waits.", ("dependency",)),
    "dep.replace": Lesson(
        "Replace a dependency", "Takes one dependency for another in one step.", ("dependency",)
    ),
    "dep.diagnostics": Lesson(
        "Examine dependencies",
        "Cycles, and dependencies on issues that do not exist.",
        ("cycles", "missing", "sound"),
    ),
    "sublease.grant": Lesson(
        "Lend part of your lease",
        "Lets a subagent (`holder`) do the actions in capabilityScope, for example issue.update, "
        "under your lease. It acts with its own name as assignee, your leaseId and fence, and "
        "subleaseId. " + _PROOF,
        ("sublease",),
    ),
    "sublease.revoke": Lesson(
        "Take a sublease back", "The subagent can change nothing any more.", ("sublease",)
    ),
    "instance.open": Lesson(
        "Name a worktree or runtime",
        "Binds a worktree or a runtime to your lease, so that others see where the work lies.",
        ("instance",),
    ),
    "instance.close": Lesson(
        "Close a worktree or runtime", "It no longer works under your lease.", ("instance",)
    ),
    "fiber.spawn": Lesson(
        "Start a fiber",
        "Says that a part of the work (taskRef) now runs beside the others under your lease. The "
        "issue cannot be closed while a fiber runs. Keep fiberId for fiber_join. " + _PROOF,
        ("fiber", "fiberId", "fiberWitnessRef"),
    ),
    "fiber.join": Lesson(
        "Join a fiber",
        "A part of the work has ended, with this result. Children are joined before their parents, "
        "or with them in joinSet.",
        ("fiber", "fiberId", "fiberWitnessRef", "joinSet"),
    ),
    "fiber.cancel": Lesson(
        "Cancel fibers",
        "Ends a fiber and everything below it, or with wholeScope all fibers of the lease.",
        ("fiber", "fiberId", "fiberWitnessRef", "cancelled"),
    ),
    "instruction.check": Lesson(
        "Check an instruction",
        "Says whether an instruction envelope is well formed and allowed, and what it would run.",
        ("instruction", "checks"),
    ),
    "instruction.run": Lesson(
        "Run an instruction",
        "Runs the checks that an instruction envelope asks for, as the check policy has them, and "
        "leaves a witness of the verdict. It can take long: it reports progress, and a cancelled "
        "call ends what runs.",
        ("instruction", "witness", "witnessRef", "witnessDigest", "verdictClass", "recorded"),
    ),
    "job.schedule": Lesson(
        "Schedule a job",
        "Puts a job of a kind on the roster, for the workers of that kind. causalDeps names what "
        "must be done first, as complete/<jobId>. The same job twice is one job.",
        ("job", "opId"),
    ),
    "job.claim": Lesson(
        "Claim a job",
        "Takes a job for leaseDurationMs; the lease is renewed for you while you stay connected, "
        "and the job is yielded when you leave. Keep leaseId and fence: job_complete and job_yield "
        "need them. With the fence it gives you more time at once. On job_claim_lapsed expire the "
        "old claim first.",
        ("job", "opId"),
    ),
    "job.complete": Lesson(
        "Complete a job",
        "Ends a job under your fence, with what came of it. After the deadline it is refused, and "
        "the result is kept for the next holder.",
        ("job", "opId"),
    ),
    "job.yield": Lesson("Give a job back", "Another worker can take it at once.", ("job", "opId")),
    "job.expire": Lesson(
        "Expire a claim",
        "Frees a job whose holder is gone. It names the claim that it expires, so that one which "
        "was renewed meanwhile stays.",
        ("job", "opId"),
    ),
    "job.show": Lesson("See one job", "A job whole, with its lease and results.", ("job",)),
    "job.roster": Lesson(
        "See the jobs",
        "Jobs by state, kind and worker, a page at a time.",
        ("jobs", "count", "cursor", "jobCounts", "limited", "claimableMs", "coordinator", "pauses"),
    ),
    "job.list": Lesson(
        "See all jobs",
        "All jobs in the order of scheduling, of one kind or in one state, a page at a time. A "
        "page may be empty and still have a cursor to go on from.",
        ("jobs", "count", "cursor"),
    ),
    "node.list": Lesson(
        "See the nodes",
        "The nodes that take part, what each may do, and which one is the coordinator.",
        ("nodes", "count", "cursor", "coordinator"),
    ),
    "route.list": Lesson(
        "See the routes", "Which kinds of jobs go to one node, or are marked.", ("routes", "count")
    ),
    "limit.set": Lesson(
        "Limit a kind of job",
        "For operators: how many jobs of a kind are held at once, claimed in a minute, and for how "
        "long, in place of what limited it before. A kind with a dot at its end is all below it.",
        ("limit",),
    ),
    "limit.clear": Lesson(
        "Take a limit away", "For operators: the kind has no limit of its own any more.", ("limit",)
    ),
    "limit.list": Lesson(
        "See the limits",
        "How many jobs of a kind are held at once, claimed in a minute, and for how long.",
        ("limits", "count"),
    ),
    "schedule.set": Lesson(
        "Set a schedule",
        "For operators: makes a job or a spec at each moment of a cron line (five fields, in a "
        "timezone) or of an interval (everyMs). Set again, it goes on after the last moment.",
        ("schedule",),
    ),
    "schedule.clear": Lesson(
        "Remove a schedule", "For operators: makes nothing more; what it made stays.", ("schedule",)
    ),
    "schedule.list": Lesson(
        "See the schedules",
        "When jobs and specs are made by themselves, and the moment each was made for last.",
        ("schedules", "count"),
    ),
    "spec.submit": Lesson(
        "Submit a spec",
        "A document of steps, each of which becomes one job, named <specId>:<stepKey>. dependsOn "
        "names steps that must be completed first. The same document twice is one spec; another "
        "one needs another specId. Runners make the jobs, not you.",
        ("spec",),
    ),
    "spec.claim": Lesson(
        "Claim a spec",
        "For runners: takes a spec to make its jobs, for leaseDurationMs, a minute if left out. "
        "More time is the same call with the fence. `missing` says which steps lack a job. Keep "
        "leaseId and fence.",
        ("spec",),
    ),
    "spec.materialize": Lesson(
        "Make the jobs of steps",
        "For runners: makes the jobs of up to 64 steps under your fence. A job that exists is left "
        "as it is. With the last one the spec is materialized and your lease ends.",
        ("created", "existing", "spec"),
    ),
    "spec.release": Lesson(
        "Give a spec back", "Another runner can go on with it at once.", ("spec",)
    ),
    "spec.show": Lesson(
        "See one spec", "A spec whole, with the state of the job of every step.", ("spec",)
    ),
    "spec.list": Lesson(
        "See the specs",
        "The specs that a runner can claim now, or with query: all every one, a page at a time.",
        ("specs", "count", "cursor", "specCounts"),
    ),
    "dispatch.claim": Lesson(
        "Claim a job to hand it on",
        "For dispatchers, not for workers: takes a spec's job that is free to run, to write its "
        "file. Workers use job_claim. Keep leaseId and fence.",
        ("job",),
    ),
    "dispatch.complete": Lesson(
        "Mark a job as handed on",
        "For dispatchers: the file is written, at `file`, with this digest. A job is marked once.",
        ("job",),
    ),
    "dispatch.release": Lesson(
        "Give a job back to dispatchers", "It was not handed on; another can do it.", ("job",)
    ),
    "dispatch.roster": Lesson(
        "See what can be handed on",
        "Jobs of specs that a dispatcher can claim now, the oldest first, a page at a time.",
        ("jobs", "count", "cursor"),
    ),
    "spend.report": Lesson(
        "Say what your work has cost",
        "Report the tokens, millionths of a dollar and milliseconds that you spent on what you "
        "hold since you said so last. `budgets` shows what is left: at state `warning` finish or "
        "hand over; with `stopped` your lease has ended, so stop at once. " + _PROOF,
        ("spend", "budgets", "stopped"),
    ),
    "spend.show": Lesson(
        "See what work has cost",
        "What an issue or a job has cost and what its budgets leave; with neither, all sums.",
        ("spend", "spends", "tallies", "budgets", "total", "truncated"),
    ),
    "budget.set": Lesson(
        "Set a budget",
        "For operators: what may be spent in a scope (*, label/L, kind/K, tree/NAME, issue/ID, "
        "job/ID) per attempt, work, label, tree or day. What is left out has no cap.",
        ("budgets",),
    ),
    "budget.clear": Lesson(
        "Clear budgets", "For operators: takes a budget away, or all of a scope.", ("budgets",)
    ),
    "budget.list": Lesson("See the budgets", "What may be spent, by scope.", ("budgets", "count")),
    "descent.cover": Lesson(
        "Glue issues in one order",
        "For operators: several issues are worked on side by side, and what comes of them is "
        "glued to one branch in one order, by priority or by age. The answer names issues whose "
        "scopes meet, before any work begins.",
        ("cover", "meetingScopes"),
    ),
    "descent.abort": Lesson(
        "Give up a cover",
        "For operators: what waits in the cover to be glued is withdrawn, and its issues are open "
        "again. A move of the branch that is authorised already comes to its end.",
        ("cover", "handedBack"),
    ),
    "descent.show": Lesson(
        "See what waits to be glued",
        "Sections that wait for a branch, in their order, how they overlap, covers, and what was "
        "in the way of others. Ask it when issue.claim says issue_gluing.",
        ("sections", "covers", "overlaps", "obstructions", "targets", "glue", "count", "truncated"),
    ),
    "observe.latest": Lesson("See how things are", "The newest decision, and totals.", ("latest",)),
    "observe.needs_attention": Lesson(
        "See what needs attention", "What is stuck, failed or contended, and why.", ("attention",)
    ),
    "observe.instruction": Lesson(
        "See one instruction", "What became of an instruction.", ("observed",)
    ),
    "observe.projection": Lesson(
        "See everything at once",
        "Work, leases, sessions and what needs attention.",
        ("picture",),
    ),
}

# What arguments mean, by name or, more exactly, by action and name; the others say it themselves.
ARGUMENTS: dict[str, str] = {
    "id": "The issue.",
    "spend.report.worker": "Who you are, for a job. Left out, it is the name of your connection.",
    "spend.report.id": "The issue; for a job, give jobId instead.",
    "usdMicros": "Millionths of a dollar: 250000 is 0.25 USD.",
    "leaseId": "As the claim returned it.",
    "fence": "As the claim returned it: the proof that you are the current holder.",
    "subleaseId": "If you act under a sublease: which one; assignee is its holder then.",
    "leaseTtlSeconds": "How long the lease lasts without renewal.",
    "issue.claim.leaseId": "An id of your choice; left out, one is made.",
    "issue.claim.fence": "If you hold it already: of your lease.",
    "issue.claim_next.leaseId": "An id of your choice; left out, one is made.",
    "leaseExpiresAt": "The same as a moment in RFC 3339; give one of the two.",
    "issue.claim_next.labels": "Only issues that have all of these.",
    "issue.add.assignee": "Who it is meant for; left out, any agent.",
    "issue.add.id": "Left out, it gets one.",
    "issue.list.assignee": "Only issues of this name.",
    "assignedTo": "Only issues that are assigned to this name.",
    "acceptanceCriteria": "How another agent can tell that it is done.",
    "priority": "Smaller comes first.",
    "status": "open, in_progress, blocked or closed.",
    "newAssignee": "Who it is meant for.",
    "dependsOnId": "The issue that it waits for.",
    "holder": "The name of the subagent.",
    "capabilityScope": "Host actions, such as issue.update.",
    "taskRef": "What the fiber does.",
    "resultRef": "Where its result lies.",
    "joinSet": "Fibers below it that end with it.",
    "instructionRef": "The instruction that asks for this.",
    "policyDigest": "The contract that you go by.",
    "capabilityClaims": "What the instruction allows.",
}

# What an agent does next, by failure class; for the rest its remedy and retry rule say it.
NEXT: dict[str, str] = {
    "lease_fence_stale": "Stop working on it and write nothing more: a newer holder has it. Take "
    "other work with work_next.",
    "lease_stale": "Stop: your lease has run out. Look with issue_show; if it is free, claim it "
    "again and go on with the new fence.",
    "lease_missing": "It has no holder. Claim it with work_next, issue_claim or job_claim.",
    "lease_fence_missing": "Send leaseId and fence as your claim returned them; if you never "
    "claimed it, it is not yours.",
    "lease_fence_unknown": "Send the fence that your claim of this very issue returned.",
    "lease_owner_mismatch": "Another holder has it. Leave it, and take other work with work_next.",
    "agent_name_mismatch": "Leave assignee, worker, runner and dispatcher out: you act under the "
    "name of your connection. What another agent holds, leave to it.",
    "agent_holds_full": "Finish what you hold with work_complete, or hand it over with "
    "work_handover.",
    "issue_waits_for_person": "Leave it to a person. Take other work with work_next.",
    "operator_required": "Leave it to an operator. If it is needed, say so to a person.",
    "lease_id_mismatch": "Send the leaseId that your claim returned.",
    "lease_issue_closed": "It is done. Take other work with work_next.",
    "job_completed": "It is done. job_roster shows what else there is.",
    "job_not_due": "Take another job; job_roster shows what can be claimed now.",
    "job_limit_reached": "Take a job of another kind; job_roster shows what can be claimed now.",
    "job_rate_limited": "Take a job of another kind; job_roster shows what can be claimed now.",
    "job_timed_out": "Stop working on it. It is free once its lease lapses.",
    "lease_contention_active": "Another agent has it. Take other work with work_next.",
    "lease_issue_blocked": "issue_blocked says what it waits for. Take other work with work_next.",
    "budget_exceeded": "Its budget is used up, and only a person can raise it. Take other work "
    "with work_next.",
    "lease_not_found": "issue_list shows what there is.",
    "issue_not_found": "issue_list shows what there is.",
    "spec_exists": "Take another specId, or submit the very document that is there.",
    "spec_materialized": "Every step has its job. spec_show shows how they stand.",
    "job_not_dispatchable": "dispatch_roster shows what can be handed on now.",
    "lease_capability_missing": "Ask the holder of the lease to do it, or to widen your sublease.",
    "section_out_of_scope": "Undo what you changed outside of the issue's scope, file it with "
    "issue_discover if it is needed, and call work_complete again.",
    "section_target_mismatch": "Its cover is for another branch. Hand it over with work_handover, "
    "and take it with that branch as into.",
    "fiber_scope_open": "Join or cancel the fibers that are named, then ask again.",
    "request_id_conflict": "Choose a new requestId, or leave it out.",
    "dep_cycle": "Leave the dependency out, or remove another of the path.",
    "sidecar_unreachable": "Try again in a few seconds, with the same requestId if you gave one.",
    "authority_overloaded": "Try again in a few seconds.",
}
BY_RETRY: dict[str, str] = {
    "never": "The same request cannot succeed.",
    "later": "The same request may succeed later.",
    "reclaim": "Stop working on it; only a new claim can go on.",
}
