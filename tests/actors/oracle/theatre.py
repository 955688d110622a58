"""Plays a scenario on our supervisor and writes down what happened, as the Erlang script does."""

from dataclasses import dataclass, field

from tests.actors.oracle.scenario import Ask, Burst, Ending, Exit, Scenario, Step, Sup, Wait, Worker
from understudy.actors.otp import (
    IGNORE,
    KILL,
    NORMAL,
    SHUTDOWN,
    CallFailed,
    ChildInfo,
    ChildRefused,
    ChildSpec,
    CountChildren,
    Counts,
    DeleteChild,
    Done,
    ExitReason,
    GenServer,
    Next,
    Ref,
    RestartChild,
    Resume,
    Start,
    StartChild,
    StartFailed,
    Stop,
    Supervisor,
    Suspend,
    TerminateChild,
    WhichChildren,
    Word,
)
from understudy.actors.otp.carriers.inline.system import Inline

CALL_MS = 60_000
SETTLE_MS = 1_000  # beyond every shutdown time of a stubborn worker, and within every period

ENDINGS: dict[Ending, ExitReason] = {
    "normal": NORMAL,
    "shutdown": SHUTDOWN,
    "{shutdown, more}": ExitReason("shutdown", "more"),
    "boom": ExitReason("crash", "boom"),
}


@dataclass
class Stage:
    """What one performance has in common: the log, and who is who."""

    system: Inline
    lines: list[str] = field(default_factory=list)
    refs: dict[str, Ref] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)

    def log(self, line: str) -> None:
        self.lines.append(line)

    def finds(self, name: str) -> Ref | None:
        ref = self.refs.get(name)
        return ref if ref is not None and self.system.alive(ref) else None


class Player(GenServer):
    def __init__(self, stage: Stage, node: Worker) -> None:
        self._stage = stage
        self._node = node

    def init(self) -> Next | Word:
        self.cell.trap_exits = True
        stage, node = self._stage, self._node
        number = stage.starts[node.id] = stage.starts.get(node.id, 0) + 1
        outcome = node.outcomes[number - 1] if number <= len(node.outcomes) else "ok"
        stage.log(f"start {node.id} {outcome}")
        if outcome == "ok":
            stage.refs[node.id] = self.cell.me
            return None
        if outcome == "ignore":
            return IGNORE
        return Stop(ExitReason("crash", "boom") if outcome == "crash" else ExitReason(outcome))

    def handle_cast(self, message: object) -> Next:
        assert isinstance(message, ExitReason)
        return Stop(message)

    def parent_exited(self, reason: ExitReason) -> None:
        if reason == SHUTDOWN:
            self._stage.log(f"stop {self._node.id}")
            if self._node.manner == "stubborn":
                return
        self.leave(ExitReason("crash", "boom") if self._node.manner == "rude" else reason)


class Director(Supervisor):
    def __init__(self, stage: Stage, node: Sup) -> None:
        stage.log(f"start {node.id}")
        self._stage = stage
        self._node = node
        super().__init__([spec(stage, child) for child in node.children], node.flags)

    def init(self) -> Next | Word:
        self._stage.refs[self._node.id] = self.cell.me
        return super().init()


def spec(stage: Stage, node: Worker | Sup) -> ChildSpec:
    worker = isinstance(node, Worker)
    return ChildSpec(
        node.id,
        Start(Player if worker else Director, (stage, node), node.id),
        restart=node.restart,
        shutdown=node.shutdown,
        type="worker" if worker else "supervisor",
        significant=node.significant,
    )


# --- a performance --------------------------------------------------------------------------------


def play(scenario: Scenario, seed: int | None = None, settle_ms: int = SETTLE_MS) -> list[str]:
    """Every line that the Erlang script would write; `seed` draws the order of turns."""
    system = Inline(seed)
    stage = Stage(system)
    try:
        root = system.spawn(Start(Director, (stage, scenario.tree)))
    except StartFailed as error:
        stage.log(f"not started {_word(error.reason)}")
        return stage.lines
    _show(stage, root)
    for step in scenario.steps:
        system.advance(settle_ms)
        if not system.alive(root):
            break
        stage.log("step")
        _do(stage, step)
        system.advance(settle_ms)
        if system.alive(root):
            _show(stage, root)
    if system.alive(root):
        system.signal(root, SHUTDOWN)
        system.advance(SETTLE_MS)
    reason = system.ended(root)
    assert reason is not None
    assert len(system.cells) == 1, "a cell outlived the tree"
    stage.log(f"gone {_word(reason)}")
    return stage.lines


def _do(stage: Stage, step: Step) -> None:
    match step:
        case Wait(delay_ms):
            stage.system.advance(delay_ms)
        case Exit(name, ending):
            ref = stage.finds(name)
            if ref is None:
                stage.log(f"nobody {name}")
            else:
                _finish(stage, ref, ending)
                stage.system.run()
        case Ask(sup):
            answer = _answer(stage, sup, step)
            stage.system.advance(SETTLE_MS)
            stage.log(answer)
        case Burst(sup, parts):
            _burst(stage, sup, parts)


def _finish(stage: Stage, ref: Ref, ending: Ending) -> None:
    if ending == "kill":
        stage.system.signal(ref, KILL)
    else:
        stage.system.cast(ref, ENDINGS[ending])


def _burst(stage: Stage, name: str, parts: tuple[Exit | Ask, ...]) -> None:
    system = stage.system
    sup = stage.finds(name)
    if sup is None:
        stage.log("nobody")
        return
    mine = {info.ref for info in _infos(stage, sup)}
    system.call(sup, Suspend(), CALL_MS)
    answers: list[tuple[Ask, list[object]]] = []
    for part in parts:
        if isinstance(part, Ask):
            answers.append((part, []))
            system._root.calls.ask(sup, _request(stage, part), CALL_MS, answers[-1][1].append)
        elif (ref := stage.finds(part.id)) is None or ref not in mine:
            stage.log(f"nobody {part.id}")
        else:
            _finish(stage, ref, part.ending)
        system.run()
    system.call(sup, Resume(), CALL_MS)
    system.advance(SETTLE_MS)
    for ask, answer in answers:
        stage.log(_said(ask, answer[0]))


def _answer(stage: Stage, name: str, ask: Ask) -> str:
    ref = stage.refs.get(name)
    if ref is None:
        return "noproc"
    try:
        return _said(ask, stage.system.call(ref, _request(stage, ask), CALL_MS))
    except CallFailed:
        return "noproc"


def _request(stage: Stage, ask: Ask) -> object:
    if ask.request == "start_child":
        assert not isinstance(ask.child, str)
        return StartChild(spec(stage, ask.child))
    assert isinstance(ask.child, str)
    kinds = {
        "terminate_child": TerminateChild,
        "restart_child": RestartChild,
        "delete_child": DeleteChild,
    }
    return kinds[ask.request](ask.child)


def _said(ask: Ask, answer: object) -> str:
    if isinstance(answer, CallFailed):
        return "noproc"
    if isinstance(answer, ChildRefused):
        return answer.why
    assert isinstance(answer, Done)
    if ask.request in ("start_child", "restart_child"):
        return "ok up" if answer.ref else "ok undefined"
    return "ok"


def _infos(stage: Stage, sup: Ref) -> list[ChildInfo]:
    found = stage.system.call(sup, WhichChildren(), CALL_MS)
    assert isinstance(found, list)
    return found


def _show(stage: Stage, sup: Ref) -> None:
    counts = stage.system.call(sup, CountChildren(), CALL_MS)
    assert isinstance(counts, Counts)
    infos = _infos(stage, sup)
    shown = "".join(f"{i.id}={'up' if i.state == 'running' else i.state} " for i in infos)
    numbers = f"{counts.specs} {counts.active} {counts.supervisors} {counts.workers}"
    stage.log(f"children {shown}{numbers}")
    for info in infos:
        if info.type == "supervisor" and info.ref is not None:
            _show(stage, info.ref)


def _word(reason: ExitReason) -> str:
    if reason.kind == "shutdown" and reason.detail:
        return "shutdown with more"
    return reason.kind
