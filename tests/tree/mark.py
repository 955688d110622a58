"""What a worker of the campaign runs: marks when it begins and ends, alone on its job, or says so.

Two processes on one job at the same time meet at its file, where the second finds the lock taken.
It imports little: thousands of it are started.
"""

import fcntl
import os
import sys

path = os.path.join(sys.argv[1], os.environ["UNDERSTUDY_JOB"])  # noqa: PTH118 - see above
fence = os.environ["UNDERSTUDY_FENCE"]
file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    os.write(file, f"overlap {fence}\n".encode())
    sys.exit(1)
os.write(file, f"begin {fence}\n".encode())
if os.urandom(1)[0] % 16 == 0:
    sys.exit(3)  # this attempt fails
os.write(file, f"end {fence}\n".encode())
