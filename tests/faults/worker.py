"""A worker as a process of its own: one JSON request a line, each asked through the real door."""

import subprocess
import sys

UNDERSTUDY, STATE_DIR = sys.argv[1:]

for line in sys.stdin:
    done = subprocess.run(
        [UNDERSTUDY, "dispatch", "--frozen-clock", "--state-dir", STATE_DIR],
        input=line,
        capture_output=True,
        text=True,
        check=True,
    )
    sys.stdout.write(done.stdout)
    sys.stdout.flush()
