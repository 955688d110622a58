"""Looks, before anything is claimed, whether what workers are to run can be run at all.

Only what is certain is refused: a shell command whose first word is a plain word that neither the
shell nor its path knows, a handler that cannot be imported or called, a folder that is not there.
What is run in a worktree and named from there is not looked for here.
"""

import os
import re
import subprocess
from pathlib import Path

from ..leasing.work_kind import for_worker
from .plan import SHELL, Plan, handler_of

_IMPORT_SECONDS = 120  # beyond that nothing is said of a handler: its first attempt will tell
_SAID_LINES = 12  # of a traceback
# A word that means itself, and then the end, a space or an operator; else it is for the shell.
_FIRST_WORD = re.compile(r"\s*([A-Za-z0-9_./][A-Za-z0-9_./+@%:,-]*)(?=[\s;&|<>]|$)")


def problem(plan: Plan) -> str | None:
    """Why nothing can be run; None where it may be possible."""
    if not os.access(plan.cwd, os.X_OK) or not plan.cwd.is_dir():
        return f"{plan.cwd}: no folder to work in"
    commands = [words for _, words in plan.kinds.handlers]
    commands += [] if plan.leg and _is_relative(plan.argv) else [plan.argv]
    found = (_problem(words, plan.cwd) for words in dict.fromkeys(filter(None, commands)))
    return next(filter(None, found), None)


def _problem(words: tuple[str, ...], cwd: Path) -> str | None:
    name = handler_of(words)
    if name is not None:
        return _handler_problem(words, name, cwd)
    return _shell_problem(words[-1], cwd) if words[:2] == SHELL else None


def _is_relative(words: tuple[str, ...]) -> bool:
    """Whether it is found from where it is run."""
    word = first_word(words[-1]) if words[:2] == SHELL else None
    return word is not None and "/" in word and not word.startswith("/")


def first_word(text: str) -> str | None:
    """What a shell command runs first, if that is certain."""
    match = _FIRST_WORD.match(text)
    return None if match is None else match[1]


def _shell_problem(text: str, cwd: Path) -> str | None:
    word = first_word(text)
    if word is None:
        return None
    if "/" in word:
        path = cwd / word
        if not path.is_file():
            return f"{word}: no such file in {cwd}"
        return None if os.access(path, os.X_OK) else f"{word}: not executable; `chmod +x {word}`"
    known = subprocess.run(  # noqa: S603 - the shell that workers get
        [*SHELL, 'command -v "$1"', "sh", word],
        cwd=cwd,
        env=for_worker(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return f"{word}: no such command" if known.returncode else None


def _handler_problem(words: tuple[str, ...], name: str, cwd: Path) -> str | None:
    try:
        found = subprocess.run(  # noqa: S603 - this very package
            [*words[:-1], "--check", name],
            cwd=cwd,
            env=for_worker(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_IMPORT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return None
    if found.returncode == 0:
        return None
    lines = found.stderr.decode("utf-8", "replace").splitlines()[-_SAID_LINES:]
    return "\n".join([f"{name}: no handler that can be run", *lines])
