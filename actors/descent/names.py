"""How branches, refs and folders are named after an issue and the fence of its lease.

    branch      understudy/<issue>/<fence>
    left work   refs/understudy/aside/<issue>/<fence>
    section     refs/understudy/section/<issue>/<fence>
    folder      <state directory>/worktrees/<issue>/<fence>, with <fence>.json beside it

I1  Two ids never have one name, and `decoded` gives back what `encoded` was given.
I2  Whatever an id is made of, git takes its name for one part of a ref.
"""

import re
from pathlib import Path
from urllib.parse import unquote_to_bytes

from ..run import attempts
from .git import GitRefused

WORKTREES = "worktrees"
ASIDES = "refs/understudy/aside"
SECTIONS = "refs/understudy/section"
PART_BYTES_MAX = 240  # a file name has 255, of which git takes some while it writes
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
_DOT = "%d"  # no number: those are in capitals; a name of dots would grow too long with `%2E`
# What git takes for something else, once no two dots are side by side.
_ODD_DOT = re.compile(r"^\.|\.(?=$|lock$)")


def encoded(name: str) -> str:
    """One part of a ref: plain letters stay, every other byte is `%` and its number."""
    data = name.encode(errors="surrogatepass")
    part = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in data)
    part = _ODD_DOT.sub(_DOT, part.replace("..", f".{_DOT}"))
    if part.startswith("-"):
        part = "%2D" + part[1:]
    if not 0 < len(part) <= PART_BYTES_MAX:
        said = f"the id of {len(name)} characters is too long or too short for the name of a branch"
        raise GitRefused(f"{said}; file the work under another one")
    return part


def decoded(part: str) -> str:
    """What `encoded` was given."""
    return unquote_to_bytes(part.replace(_DOT, ".")).decode(errors="surrogatepass")


def branch(issue_id: str, fence: int) -> str:
    return f"understudy/{encoded(issue_id)}/{fence}"


def aside_ref(issue_id: str, fence: int) -> str:
    return f"{ASIDES}/{encoded(issue_id)}/{fence}"


def section_ref(issue_id: str, fence: int) -> str:
    return f"{SECTIONS}/{encoded(issue_id)}/{fence}"


def lease_of(ref: str) -> tuple[str, int] | None:
    """Issue and fence that a ref or branch is named after, if it is one of ours."""
    *_, part, fence = ["", "", *ref.split("/")]
    if not (part and fence.isascii() and fence.isdecimal()):
        return None
    return decoded(part), int(fence)


def folder(state_dir: Path, issue_id: str, fence: int) -> Path:
    """Where the worktree lies; the issue's folder is named as that of its logs."""
    return worktrees(state_dir) / attempts.folder_of(state_dir, issue_id).name / str(fence)


def worktrees(state_dir: Path) -> Path:
    return state_dir.resolve() / WORKTREES
