"""The life of a lease, as one table. Code, `docs/protocol.md` and tests are made from it.

    unclaimed --claim--> active --renew--> renewed --release--> released
                           |  \\--(deadline passes)--> expired --reclaim--> active
                           \\--(record disagrees)--> contended --reconcile--> active

`expired` and `contended` are seen, not written: time or a foreign record brings a lease there.
"""

from enum import StrEnum


class LeaseState(StrEnum):
    UNCLAIMED = "unclaimed"
    ACTIVE = "active"
    RENEWED = "renewed"
    RELEASED = "released"
    EXPIRED = "expired"
    CONTENDED = "contended"


class Move(StrEnum):
    CLAIM = "claim"
    RECLAIM = "reclaim"
    RENEW = "renew"
    RECONCILE = "reconcile"
    RELEASE = "release"
    COMPLETE = "complete"
    BREAK = "break"
    LAPSE = "lapse"  # the deadline passes
    CONTEND = "contend"  # the record names another holder or status


_S, _M = LeaseState, Move

TRANSITIONS: dict[tuple[LeaseState, Move], LeaseState] = {
    (_S.UNCLAIMED, _M.CLAIM): _S.ACTIVE,
    (_S.RELEASED, _M.CLAIM): _S.ACTIVE,
    (_S.EXPIRED, _M.RECLAIM): _S.ACTIVE,
    (_S.ACTIVE, _M.RENEW): _S.RENEWED,
    (_S.RENEWED, _M.RENEW): _S.RENEWED,
    (_S.CONTENDED, _M.RENEW): _S.RENEWED,
    (_S.CONTENDED, _M.RECONCILE): _S.ACTIVE,
    (_S.ACTIVE, _M.RELEASE): _S.RELEASED,
    (_S.RENEWED, _M.RELEASE): _S.RELEASED,
    (_S.CONTENDED, _M.RELEASE): _S.RELEASED,
    (_S.ACTIVE, _M.COMPLETE): _S.RELEASED,
    (_S.RENEWED, _M.COMPLETE): _S.RELEASED,
    (_S.CONTENDED, _M.COMPLETE): _S.RELEASED,
    (_S.ACTIVE, _M.BREAK): _S.RELEASED,
    (_S.RENEWED, _M.BREAK): _S.RELEASED,
    (_S.CONTENDED, _M.BREAK): _S.RELEASED,
    (_S.EXPIRED, _M.BREAK): _S.RELEASED,
    (_S.ACTIVE, _M.LAPSE): _S.EXPIRED,
    (_S.RENEWED, _M.LAPSE): _S.EXPIRED,
    (_S.CONTENDED, _M.LAPSE): _S.EXPIRED,
    (_S.ACTIVE, _M.CONTEND): _S.CONTENDED,
    (_S.RENEWED, _M.CONTEND): _S.CONTENDED,
}
