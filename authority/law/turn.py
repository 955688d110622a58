"""What every rule is given beside the request: what is, when, and how the request came."""

from msgspec import Struct

from ...contracts import CallerStamp, Stamp
from .jobs.job_index import JobIndex
from .state import State
from .workers.history import Past


class Origin(Struct, frozen=True):
    """Where an operation comes from: a request of its own, or a batch, with stamp and signature."""

    authored: CallerStamp | None = None
    digest: str = ""  # of the operation as it came
    signature: str = ""  # verified
    index: int = 0  # its place in the batch


class Turn(Struct, frozen=True):
    """One decision. Rules read it, and change nothing."""

    state: State
    stamp: Stamp
    origin: Origin = Origin()
    past: Past = ()  # what the newest rows say, for the rules that look back
    door: str = ""  # through which the request came
    transport: str = ""  # which it says it came by
    contract_digest: str = ""  # of the contract in force
    policy_digest: str = ""  # that its evidence is bound to

    @property
    def lane(self) -> JobIndex:
        return self.state.lane

    @property
    def owner(self) -> str:
        """The owner of the mesh is the authority's own node."""
        return self.stamp.node

    @property
    def written(self) -> CallerStamp:
        """The stamp that decides which write is the last: the author's, where there is one."""
        return self.origin.authored or self.plain_stamp

    @property
    def plain_stamp(self) -> CallerStamp:
        """The stamp without the number of its row."""
        return CallerStamp(self.stamp.wall_ms, self.stamp.counter, self.stamp.node)
