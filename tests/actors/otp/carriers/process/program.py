"""A program with a troupe, to be killed: prints who is there, and waits."""

import json
import signal
import sys
from pathlib import Path

from tests.actors.otp.carriers.process.cast import Fragile
from tests.actors.otp.carriers.process.stage import Stage
from understudy.actors.otp import Start


def main(run_dir: str, how: str) -> None:
    stage = Stage(Path(run_dir))
    stage.troupe.start()
    parent = stage.puppet()
    child = stage.child(parent, Start(Fragile, (), "grandchild"))
    pids = {**stage.troupe.pids, "parent": parent.place.pid, "child": child.place.pid}
    row = {"name": stage.troupe.name, "port": stage.troupe.port, **pids}
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()
    if how == "wait":
        signal.pause()
    if how == "stop":
        stage.troupe.stop(5_000)


if __name__ == "__main__":
    main(*sys.argv[1:])
