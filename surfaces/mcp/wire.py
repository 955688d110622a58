"""What a pump and its gateway say to each other beside MCP, one line each.

A line that begins with `#` is no JSON, and so none of the client's or the server's:

    pump     #hello {"protocol":1,"visit":"...","name":"...",...}     first, on every connection
             #hold 7 {...}            behind it: what a gateway before this one kept for us
             #5 {...}                 the fifth request of this visit; 5 again if it is sent again
    gateway  #house tree              whose the next one is: a tree's, or the pump's own business
             #5 {...}                 the answer to that request
             #keep 7 {...}            it renews the lease of fence 7; said before the claim's answer
             #drop 7                  it does not any more
             #no ...                  why it does not serve this pump
    anybody  #look                    in place of all that: what the gateway says of itself

Numbers make a request that is sent again known as such, also where a client counts badly. A client
that speaks plain MCP to the socket is served too; it has no second connection to be known on.

This module is for programs that must start fast, and imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

SOCKET: Final = "mcp.sock"
LOCK: Final = "mcp.lock"
LOG: Final = "gateway.log"  # in the run folder
PROTOCOL: Final = 1
MARK: Final = b"#"
HELLO, HOLD, HOUSE, KEEP, DROP, NO, LOOK = (
    b"#hello",
    b"#hold",
    b"#house",
    b"#keep",
    b"#drop",
    b"#no",
    b"#look",
)
LINE_BYTES_MAX: Final = 1_048_576  # as `limits.REQUEST_BYTES_MAX`; a test holds them together
ENDLESS: Final = ("subscriptions/listen",)  # requests whose answer is their end: none waits for it
ASKED_MAX: Final = 1_024  # as `limits.MCP_INFLIGHT_MAX`
