"""A command that makes trouble: `python -I -S trouble.py KIND`. It ends when it is killed.

It writes "up" once its trouble is on its way.
"""

import os
import signal
import sys
import time

FOREVER_SECONDS = 1_000


def ignore() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def daemon(*, deaf: bool) -> None:
    """As daemons do it: fork, a session of one's own, fork again, let go of everything."""
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    if deaf:
        ignore()
    time.sleep(FOREVER_SECONDS)
    os._exit(0)


def runner() -> None:
    """Each process makes the next one and ends: a look finds another number each time."""
    if os.fork():
        return
    os.setsid()
    ignore()
    give_up = time.monotonic() + FOREVER_SECONDS
    while time.monotonic() < give_up:
        if os.fork():
            os._exit(0)


def main(kind: str) -> None:
    match kind:
        case "sleep":
            pass
        case "deaf":
            ignore()
        case "daemons":
            for deaf in (False, True):
                daemon(deaf=deaf)
        case "tree":
            for _ in range(3):
                if os.fork() == 0:
                    os.setsid()
                    ignore()
        case "runner":
            runner()
        case "leaver":
            daemon(deaf=True)
            os.write(1, b"up\n")
            os._exit(3)
        case _:
            raise ValueError(kind)
    os.write(1, b"up\n")
    time.sleep(FOREVER_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1])
