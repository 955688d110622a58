"""What a command spends, as it says itself while it runs: lines that it adds to a file.

The file's name is in UNDERSTUDY_SPEND_FILE. A line says what was spent since the line before, such
as `tokens=1200 usd=0.012 seconds=3.5`; units that are left out are 0. A line counts when it has its
end, or when the command has ended. A line that says something else is told of, and counts nothing.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ...contracts import Amount, limits, spend_line

VARIABLE: Final = "UNDERSTUDY_SPEND_FILE"

Tell = Callable[[str], None]


class SpendFile:
    """Reads what is new in the file of one attempt."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0  # bytes that were taken

    def look(self, tell: Tell, *, is_over: bool = False) -> Amount | None:
        """The sum of new lines; None where there are none. Whatever the file is, it ends here."""
        text = self._content()
        end = len(text) if is_over else text.rfind(b"\n") + 1
        self._read += end
        total = Amount()
        for line in text[:end].split(b"\n"):
            if line.strip():
                total = total.plus(_amount(line, tell))
        return total if total != Amount() else None

    def _content(self) -> bytes:
        """What was added, within bounds; a pipe or a device would hold its reader up."""
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            room = limits.SPEND_FILE_BYTES_MAX - self._read
            is_file = stat.S_ISREG(os.fstat(handle).st_mode)
            return os.pread(handle, room, self._read) if is_file and room > 0 else b""
        except OSError:
            return b""
        finally:
            os.close(handle)


def _amount(line: bytes, tell: Tell) -> Amount:
    try:
        return spend_line(line.decode("utf-8", "replace"))
    except ValueError as error:
        tell(f"{VARIABLE}: {error}"[: limits.REASON_LENGTH_MAX])
        return Amount()


def spend_members(amount: Amount) -> dict[str, Any]:
    """An amount as a request names it; what is more than one report may say is cut."""
    given = {
        "tokens": amount.tokens,
        "usdMicros": amount.usd_micros,
        "milliseconds": amount.milliseconds,
    }
    return {name: min(value, limits.SPEND_REPORT_MAX) for name, value in given.items() if value}
