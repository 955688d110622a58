"""What the workers of the descent story run: edits by a plan, and a note of all that was written.

The plan is a file in the folder that is named; so are the notes, and the gates at which some wait.
One that hangs goes on when it is woken, and does not know that its lease is another's by then.
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

TRACE = Path(sys.argv[1])
ISSUE, FENCE = os.environ["UNDERSTUDY_ISSUE"], os.environ["UNDERSTUDY_FENCE"]
MARK = f"{ISSUE} {FENCE}"


def note(path: Path, data: bytes) -> None:
    """After it was written: what git would call it."""
    name = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    with (TRACE / "written").open("ab", buffering=0) as file:
        file.write(f"{MARK} {name} {path}\n".encode())


def leave(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    note(path, data)


def change_line(name: str, number: int) -> None:
    lines = Path(name).read_text().splitlines()
    lines[number] = MARK
    leave(Path(name), ("\n".join(lines) + "\n").encode())


def append(name: str, *_: object) -> None:
    path = Path(name)
    before = path.read_bytes() if path.exists() else b""
    leave(path, before + f"{MARK}\n".encode())


def rename(name: str, to: str) -> None:
    Path(name).rename(to)


def rename_and_change(name: str, to: str) -> None:
    rename(name, to)
    change_line(to, 0)


def delete(name: str, *_: object) -> None:
    Path(name).unlink()


def add(name: str, *_: object) -> None:
    leave(Path(name), f"{MARK}\n".encode())


def change_bytes(name: str, *_: object) -> None:
    leave(Path(name), b"\0\xff" + MARK.encode() + b"\0")


STEPS = {
    each.__name__: each
    for each in (change_line, append, rename, rename_and_change, delete, add, change_bytes)
}


def await_file(name: str) -> None:
    while not (TRACE / name).exists():
        time.sleep(0.05)


def hang() -> None:
    """The first to work on the issue does; woken up, it commits and pushes."""
    try:
        (TRACE / f"hung-{ISSUE}").open("x").write(FENCE)
    except FileExistsError:
        return
    await_file(f"wake-{ISSUE}")
    leave(Path(f"zombie-{ISSUE}.txt"), f"{MARK}\n".encode())
    own, late = f"refs/heads/{os.environ['UNDERSTUDY_BRANCH']}", f"refs/heads/late-{ISSUE}"
    for words in (
        ("add", "--all"),
        ("commit", "--quiet", "--message=late"),
        ("push", "--quiet", ".", f"HEAD:{late}", f"HEAD:{own}"),
    ):
        subprocess.run(["git", *words], check=False)
    (TRACE / f"acted-{ISSUE}").touch()
    sys.exit(0)


def main() -> None:
    order = json.loads((TRACE / "plan.json").read_text())[ISSUE]
    leave(Path(f"parts/{ISSUE}/{FENCE}"), f"half of {MARK}\n".encode())
    if order["hangs"]:
        hang()
    if order["gate"]:
        await_file(f"gate-{ISSUE}")
    time.sleep(order["seconds"])
    kind, *rest = order["step"]
    STEPS[kind](*rest)


main()
