"""What the workers of the chaos test run: a moment of work, alone on its issue, or it says so.

Two processes on one issue at the same time meet at its file: the second finds it locked, and
leaves a line that the test finds.
"""

import fcntl
import os
import random
import sys
import time
from pathlib import Path

path = Path(sys.argv[1]) / os.environ["UNDERSTUDY_ISSUE"]
with path.open("a") as file:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.write(f"overlap {os.environ['UNDERSTUDY_FENCE']}\n")
        sys.exit(1)
    file.write(f"begin {os.environ['UNDERSTUDY_FENCE']}\n")
    file.flush()
    time.sleep(random.uniform(0, 0.4))
    file.write(f"end {os.environ['UNDERSTUDY_FENCE']}\n")
