"""The stand itself: a browser that really runs, and that notices what is wrong."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.stand import Browser, BrowserFault, BrowserPage, opened

GOOD = """<!doctype html><html lang="en"><title>Good</title><main><h1>Good</h1>
<button onclick="document.title = 'pressed'">Press</button><canvas id="c"></canvas></main>"""
BAD = """<!doctype html><html><title>Bad</title><main><h1>Bad</h1><img src="data:,">
<p style="color:#ccc;background:#fff">pale</p></main>"""


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        text = {"/good": GOOD, "/bad": BAD, "/strict": BAD}.get(self.path, "")
        self.send_response(200)
        self.send_header("content-type", "text/html")
        if self.path == "/strict":
            self.send_header("content-security-policy", "default-src 'none'; style-src 'none'")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_page_is_pressed_and_pictured(browser: Browser, site: str, tmp_path: Path) -> None:
    with opened(browser, width=640, height=480) as page:
        assert page.goto(f"{site}/good") == 200
        page.click("button")
        page.until("document.title === 'pressed'")
        page.evaluate("document.getElementById('c').getContext('2d').fillRect(0, 0, 9, 9)")
        data = page.screenshot(tmp_path / "page.png").read_bytes()
        assert (data[:8], data[16:24]) == (b"\x89PNG\r\n\x1a\n", b"\0\0\2\x80\0\0\1\xe0")
        assert page.axe() == []
        assert page.metrics()["JSHeapUsedSize"] > 0


def test_what_is_wrong_with_a_page_is_found(browser: Browser, site: str) -> None:
    with opened(browser) as page:
        page.goto(f"{site}/bad")
        found = " ".join(page.axe())
        assert "image-alt" in found
        assert "color-contrast" in found
        page.goto(f"{site}/strict")
        assert any("Content Security Policy" in each for each in page.problems())


def test_light_and_dark_with_and_without_scripts(browser: Browser, site: str) -> None:
    ask = "matchMedia('(prefers-color-scheme: dark)').matches"
    for dark in (True, False):
        with opened(browser, dark=dark) as page:
            page.goto(f"{site}/good")
            assert page.evaluate(ask) is dark
    with opened(browser, javascript=False) as page:
        page.goto(f"{site}/good")
        page.click("button")
        assert "Good" in page.text()


def test_what_never_comes_is_a_fault_with_a_name(page: BrowserPage, site: str) -> None:
    page.goto(f"{site}/good")
    with pytest.raises(BrowserFault, match="imeout"):
        page.until("false", seconds=0.2)


def test_a_driver_that_is_gone_is_said_so(browser: Browser) -> None:
    other = Browser()
    other.close()
    assert other.process.returncode == 0
    with pytest.raises(BrowserFault, match="gone"):
        other.page()
