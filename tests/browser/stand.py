"""A real browser for tests: Chromium, driven by Playwright in Node, one for each worker.

Chromium is the one that `UNDERSTUDY_CHROMIUM` names (a path, or the URL of one that runs), else one
on the path, else the one that the npm package `@sparticuz/chromium` carries.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.mcp.outside import node
from tests.services.server import Missing, ends_with_parent

HERE = Path(__file__).parent
_NAMES = ("chromium", "chromium-browser", "google-chrome")


class BrowserFault(AssertionError):
    """What the browser, or its driver, could not do."""


class Browser:
    """Chromium, until it is closed."""

    def __init__(self) -> None:
        """Raises `Missing` where there is none."""
        folder = node.packages(HERE, "driver.mjs")
        found = os.environ.get("UNDERSTUDY_CHROMIUM") or next(
            filter(None, map(shutil.which, _NAMES)), ""
        )
        self.process = subprocess.Popen(
            [node.node(), "driver.mjs"],
            cwd=folder,
            env=os.environ | {"UNDERSTUDY_CHROMIUM": found},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=ends_with_parent(signal.SIGTERM),  # noqa: PLW1509 - it only calls prctl
        )
        ready = self._line()
        if "ready" not in ready:
            self.close()
            raise Missing(f"chromium: {ready.get('error')}")
        self.version = ready["ready"]

    def page(self, **options: Any) -> "BrowserPage":
        """A fresh one, with no cookies: `dark`, `javascript`, `width`, `height`, `reduced`."""
        return BrowserPage(self, self.call("open", 0, **options))

    def call(self, name: str, page: int, **given: Any) -> Any:
        """What the driver answers; `BrowserFault` where it cannot."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(
                json.dumps({"call": name, "page": page, **given}).encode() + b"\n"
            )
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise BrowserFault("the browser's driver is gone") from None
        found = self._line()
        if "error" in found:
            raise BrowserFault(f"{name} {given}: {found['error']}")
        return found["result"]

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise BrowserFault("the browser's driver is gone")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class BrowserPage:
    """One page; what its scripts complain of is a failure when it is closed."""

    def __init__(self, browser: Browser, number: int) -> None:
        self._browser, self._number = browser, number

    def _call(self, name: str, **given: Any) -> Any:
        return self._browser.call(name, self._number, **given)

    def goto(self, url: str) -> int:
        """The status of the answer."""
        return int(self._call("goto", url=url))

    def reload(self) -> int:
        return int(self._call("reload"))

    def click(self, selector: str) -> None:
        self._call("click", selector=selector)

    def fill(self, selector: str, text: str) -> None:
        self._call("fill", selector=selector, text=text)

    def press(self, key: str) -> None:
        self._call("press", key=key)

    def text(self, selector: str = "body") -> str:
        return str(self._call("text", selector=selector))

    def count(self, selector: str) -> int:
        return int(self._call("count", selector=selector))

    @property
    def url(self) -> str:
        return str(self._call("url"))

    def wait(self, selector: str) -> None:
        """Until it is to be seen."""
        self._call("wait", selector=selector)

    def until(self, script: str, seconds: float = 15) -> None:
        """Until an expression is true in the page."""
        self._call("until", script=script, ms=seconds * 1000)

    def until_text(self, text: str, selector: str = "body", seconds: float = 15) -> None:
        where = f"document.querySelector({json.dumps(selector)})"
        self.until(f"({where}?.innerText ?? '').includes({json.dumps(text)})", seconds)

    def evaluate(self, script: str) -> Any:
        return self._call("evaluate", script=script)

    def cookies(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._call("cookies")
        return found

    def screenshot(self, path: Path, *, whole: bool = False) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._call("screenshot", path=str(path), whole=whole)
        return path

    def problems(self) -> list[str]:
        """What its console has said since the last time."""
        found: list[str] = self._call("problems")
        return found

    def requests(self) -> list[tuple[str, int]]:
        """What it has asked for since the last time: address and status."""
        return [(url, status) for url, status in self._call("requests")]

    def metrics(self) -> dict[str, float]:
        """As Chromium's own tools count: `JSHeapUsedSize`, `Nodes`, `JSEventListeners`, ..."""
        found: dict[str, float] = self._call("metrics")
        return found

    def axe(self) -> list[str]:
        """What is wrong for people who use keyboard, screen reader or strong contrast."""
        found: list[str] = self._call("axe")
        return found

    def close(self) -> None:
        self._call("close")


@contextmanager
def opened(browser: Browser, **options: Any) -> Iterator[BrowserPage]:
    """A page that must have nothing to complain of in the end."""
    page = browser.page(**options)
    try:
        yield page
        problems = page.problems()
        assert not problems, problems
    finally:
        page.close()
