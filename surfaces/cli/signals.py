"""Signals that a command passes on to what it runs, as numbers to be read from a descriptor."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from ...actors.run import runner


@contextmanager
def passed_signals() -> Iterator[int]:
    """A descriptor with the numbers of signals that are to be passed on; they do nothing else."""
    wake, sink = os.pipe()
    for each in (wake, sink):
        os.set_blocking(each, False)
    before = {number: signal.getsignal(number) for number in runner.PASSED_ON}
    older = signal.set_wakeup_fd(sink, warn_on_full_buffer=False)
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # `nohup` asked for that
            signal.signal(number, lambda *_: None)
    try:
        yield wake
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(older)
        os.close(wake)
        os.close(sink)
