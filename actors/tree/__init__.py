"""The coordinator's supervision tree: what `understudy up` starts.

    coord_sup            rest_for_one: a child starts after those it depends on
      authority_client   owns the sidecar, looks after it, starts it again
      evidence_writer    writes the trajectory behind the journal
      worker_sup         any number of workers, each a process group under one lease
      lease_dispatcher   finds work, claims it, starts workers, renews, retries, escalates
      job_sup, job_loop  the same two for jobs, by kind
      gateway            serves agents, when that is asked for
      chain_runner       makes the jobs of specs, when that is asked for
      job_dispatcher     writes the files of jobs that are free to run
      scheduler          makes what schedules say, when that is asked for
      gluer              merges what workers leave, when each has a worktree

`launcher` starts it and stops it, `control` talks to one that runs elsewhere. Names are imported
when they are first used: the launcher takes a while, and `understudy status` does without.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..dispatch.issue_calls import listing as listing
    from ..dispatch.kinds import Kinds as Kinds
    from ..dispatch.worklist import Wanted as Wanted
    from ..otp.carriers.process import AlreadyRunning as AlreadyRunning
    from ..otp.carriers.process import end_by_force as end_by_force
    from ..run.webhook import webhook_problem as webhook_problem
    from ..specs.job_file_format import JOB_FOLDER as JOB_FOLDER
    from .control import NoTree as NoTree
    from .control import ask as ask
    from .launcher import Occupied as Occupied
    from .launcher import Tree as Tree
    from .launcher import left_of as left_of
    from .plan import RUN_FOLDER as RUN_FOLDER
    from .plan import Plan as Plan
    from .plan import handler_command as handler_command
    from .plan import shell_command as shell_command
    from .plan import webhook_command as webhook_command
    from .preflight import first_word as first_word
    from .preflight import problem as problem

_HOMES = {
    "AlreadyRunning": "..otp.carriers.process",
    "JOB_FOLDER": "..specs.job_file_format",
    "Kinds": "..dispatch.kinds",
    "NoTree": ".control",
    "Occupied": ".launcher",
    "Plan": ".plan",
    "RUN_FOLDER": ".plan",
    "Tree": ".launcher",
    "Wanted": "..dispatch.worklist",
    "ask": ".control",
    "end_by_force": "..otp.carriers.process",
    "first_word": ".preflight",
    "handler_command": ".plan",
    "left_of": ".launcher",
    "listing": "..dispatch.issue_calls",
    "problem": ".preflight",
    "shell_command": ".plan",
    "webhook_command": ".plan",
    "webhook_problem": "..run.webhook",
}

__all__ = [
    "JOB_FOLDER",
    "RUN_FOLDER",
    "AlreadyRunning",
    "Kinds",
    "NoTree",
    "Occupied",
    "Plan",
    "Tree",
    "Wanted",
    "ask",
    "end_by_force",
    "first_word",
    "gateway",
    "handler_command",
    "left_of",
    "listing",
    "problem",
    "shell_command",
    "webhook_command",
    "webhook_problem",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)
