"""Handlers in Python: a function that works on one issue or one job, in a process of its own.

    from understudy.actors.handlers import HandBack, IssueWork, JobWork, handler

    @handler("build")                      # or an entry point in the group `understudy.handlers`
    def build(work: IssueWork) -> None:
        print(work.issue["title"], work.fence)

    async def infer(work: JobWork) -> None:
        text = await ask_model(work.payload["prompt"])
        work.artifact("sha256:...", "report")
        work.snapshot(model_id="m-1", prompt=work.payload["prompt"], output=text)

`work.spend(tokens=1200, usd="0.012")` says what the work has cost, for budgets.

A handler that returns None has done the work; a handler of a job may return artefacts as well. What
is awaitable is awaited. `HandBack` gives the work back; any other exception, and any other result,
is a failed attempt, with its traceback in the attempt's log.

`python -m understudy.actors.handlers NAME` runs one; NAME is `module:function`, or a name that was
registered. `--check NAME` only looks for it. Exit 127 says that there is no such handler.
"""

import hashlib
import importlib
import inspect
import json
import os
import re
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

GROUP: Final = "understudy.handlers"
HAND_BACK: Final = 75
NOT_FOUND: Final = 127  # as a shell says it of a command
_PLAIN = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?")  # as a line of UNDERSTUDY_SPEND_FILE has it


class Spending:
    """What a handler says of its cost; the worker reports it while the handler runs."""

    __slots__ = ()

    def spend(self, tokens: int = 0, usd: str | int = 0, seconds: str | int = 0) -> None:
        """What was spent since the last call. Dollars and seconds are texts: "0.012", "3.5"."""
        said = {"tokens": tokens, "usd": usd, "seconds": seconds}
        for unit, amount in said.items():
            if isinstance(amount, float) or not _PLAIN.fullmatch(str(amount)):
                raise ValueError(f'{unit} {amount!r}: a whole number, or a text such as "0.25"')
        if "." in str(tokens) or not any(str(each).strip("0.") for each in said.values()):
            raise ValueError("nothing was spent, or a part of a token")
        path = os.environ.get("UNDERSTUDY_SPEND_FILE")
        if path:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(" ".join(f"{unit}={amount}" for unit, amount in said.items()) + "\n")


@dataclass(frozen=True, slots=True)
class IssueWork(Spending):
    """An issue to work on, and under which lease."""

    issue: dict[str, Any]
    issue_id: str
    assignee: str
    lease_id: str
    fence: int
    state_dir: Path

    @classmethod
    def from_environment(cls) -> Self:
        """As a worker was told."""
        return cls(
            issue=json.load(sys.stdin),
            issue_id=os.environ["UNDERSTUDY_ISSUE"],
            assignee=os.environ["UNDERSTUDY_ASSIGNEE"],
            lease_id=os.environ["UNDERSTUDY_LEASE"],
            fence=int(os.environ["UNDERSTUDY_FENCE"]),
            state_dir=Path(os.environ["UNDERSTUDY_STATE_DIR"]),
        )


@dataclass(frozen=True, slots=True)
class JobWork(Spending):
    """A job to work on, and under which lease. Artefacts go with its completion."""

    job: dict[str, Any]  # whole, as `job.show` has it
    job_id: str
    kind: str
    worker: str
    lease_id: str
    fence: int
    state_dir: Path
    artifacts_path: Path

    @classmethod
    def from_environment(cls) -> Self:
        """As a worker for jobs was told."""
        return cls(
            job=json.load(sys.stdin),
            job_id=os.environ["UNDERSTUDY_JOB"],
            kind=os.environ["UNDERSTUDY_KIND"],
            worker=os.environ["UNDERSTUDY_WORKER"],
            lease_id=os.environ["UNDERSTUDY_LEASE"],
            fence=int(os.environ["UNDERSTUDY_FENCE"]),
            state_dir=Path(os.environ["UNDERSTUDY_STATE_DIR"]),
            artifacts_path=Path(os.environ["UNDERSTUDY_ARTIFACTS"]),
        )

    @property
    def payload(self) -> dict[str, Any]:
        found: dict[str, Any] = self.job["payload"]
        return found

    @property
    def quarantined(self) -> list[dict[str, Any]]:
        """Artefacts of an earlier holder that came after its deadline. `adopt` takes them over."""
        found: list[dict[str, Any]] = (self.job.get("quarantined") or {}).get("artifacts", [])
        return found

    def artifact(self, artifact_id: str, artifact_type: str, **members: str) -> None:
        """Name something that was produced; other members are as on the wire (`sourceJob`, ...)."""
        self._leave({"artifactId": artifact_id, "artifactType": artifact_type} | members)

    def snapshot(
        self, model_id: str, prompt: str | bytes, output: str | bytes, model_version: str = ""
    ) -> None:
        """Say how an inference came about, as audited kinds must. Only digests of texts are kept.

        Its id and its job follow from the rest, and are filled in when it is read.
        """
        said = {"artifactType": _SNAPSHOT, "modelId": model_id}
        said |= {"promptDigest": _digest(prompt), "outputDigest": _digest(output)}
        self._leave(said | ({"modelVersion": model_version} if model_version else {}))

    def adopt(self) -> None:
        """Take over what an earlier holder brought too late."""
        for each in self.quarantined:
            self._leave(each)

    def _leave(self, artifact: Mapping[str, Any]) -> None:
        with self.artifacts_path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(artifact) + "\n")


Job = IssueWork  # names of before, which said the opposite
Work = JobWork


class HandBack(Exception):
    """Not me, or not now: the issue or the job is handed back, and that is no failure."""


Handler = Callable[[Any], object]
_SNAPSHOT = "likewise.inference.snapshot"  # `contracts` has it, and takes long to import
_registered: dict[str, Handler] = {}


def handler(name: str) -> Callable[[Handler], Handler]:
    """Register a function under a name."""

    def register(function: Handler) -> Handler:
        if name in _registered:
            raise ValueError(f"the handler {name} is registered twice")
        _registered[name] = function
        return function

    return register


def find(name: str) -> Handler:
    """Raises `LookupError` with what was looked for."""
    module, _, attribute = name.partition(":")
    if attribute:
        sys.path.insert(0, str(Path.cwd()))
        found: object = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part, None)
        if found is None and attribute in _registered:
            return _registered[attribute]
    else:
        from importlib import metadata  # takes as long as all the rest

        entries = [each for each in metadata.entry_points(group=GROUP) if each.name == name]
        found = entries[0].load() if entries else _registered.get(name)
    if not callable(found):
        raise LookupError(  # noqa: TRY004 - nothing of that name was found
            f"no handler {name}: give `module:function`, or an entry point of {GROUP}"
        )
    if any(map(inspect.isasyncgenfunction, (found, found.__call__))):
        raise LookupError(f"{name} is an async generator, which nothing runs to its end")
    result: Handler = found
    return result


async def _awaited(found: Awaitable[object]) -> object:
    return await found


def _result(handler: Handler, work: object) -> object:
    """What a handler gives back; what it only promises is awaited, in a loop of this process."""
    found = handler(work)
    if not inspect.isawaitable(found):
        return found
    import asyncio

    return asyncio.run(_awaited(found))


def _work_on_issue(handler: Handler) -> None:
    found = _result(handler, IssueWork.from_environment())
    if found is not None:
        raise TypeError(f"a handler of an issue returns None, not {type(found).__name__}")


def _work_on_job(handler: Handler) -> None:
    """Artefacts may also be what a handler of jobs returns: one, or several."""
    work = JobWork.from_environment()
    found = _result(handler, work)
    if found is None:
        return
    several = isinstance(found, Iterable) and not isinstance(found, Mapping)
    for each in found if several else [found]:  # type: ignore[attr-defined]  # `several` has looked
        if not isinstance(each, Mapping):
            raise TypeError(f"a handler returns artefacts, not {type(each).__name__}")
        work._leave(each)  # noqa: SLF001 - the two belong together


def _digest(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def main(name: str, *, only_check: bool = False) -> int:
    try:
        found = find(name)
    except (Exception, SystemExit):  # noqa: BLE001 - whatever its module does when it is imported
        traceback.print_exc()
        return NOT_FOUND
    if only_check:
        return 0
    try:
        if "UNDERSTUDY_JOB" in os.environ:
            _work_on_job(found)
        else:
            _work_on_issue(found)
    except HandBack as error:
        print(f"handed back: {error}", file=sys.stderr)  # noqa: T201 - it goes to the attempt's log
        return HAND_BACK
    except Exception:  # noqa: BLE001 - whatever it is, the attempt failed
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    # The module that handlers import is another one than this program.
    from understudy.actors import handlers

    sys.exit(handlers.main(sys.argv[-1], only_check=sys.argv[1] == "--check"))
