"""Posts what it reads to a URL: `python -m understudy.actors.run.webhook URL [SECRET_FILE]`.

The body is the JSON object on standard input. With a secret, `X-Understudy-Signature` is `sha256=`
and the HMAC of the body in hex; the receiver computes it again, and compares. Exit 0 says that the
receiver took it, with a status of 2xx; 1 that it did not.
"""

import hashlib
import hmac
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

_SECONDS = 20.0


class _Still(urllib.request.HTTPRedirectHandler):
    """Follows nowhere: what is signed for one receiver is not told to another."""

    def redirect_request(self, *_: object) -> None:
        return None


def webhook_problem(url: str) -> str | None:
    """Why nothing can be posted to a URL."""
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError as error:
        return str(error)
    return None if is_web else f"{url}: a webhook begins with http:// or https://"


def signature(secret: bytes, body: bytes) -> str:
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


def post(url: str, body: bytes, secret: bytes, event: str = "") -> int:
    """The status that the receiver gives."""
    headers = {"Content-Type": "application/json", "X-Understudy-Event": event}
    if secret:
        headers["X-Understudy-Signature"] = signature(secret, body)
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - `webhook_problem` has looked
    try:
        with urllib.request.build_opener(_Still).open(request, timeout=_SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def _secret(file: str) -> bytes:
    """What signs; nothing is posted unsigned because somebody emptied a file."""
    secret = Path(file).read_bytes().strip()
    if not secret:
        raise OSError("the secret is empty")
    return secret


def main(url: str, secret_file: str | None = None) -> int:
    if problem := webhook_problem(url):
        sys.stderr.write(f"{problem}\n")
        return 2
    event = os.environ.get("UNDERSTUDY_EVENT", "")
    try:
        secret = _secret(secret_file) if secret_file else b""
        status = post(url, sys.stdin.buffer.read(), secret, event)
    except OSError as error:
        sys.stderr.write(f"{urlsplit(url).hostname}: {error}\n")
        return 1
    sys.stderr.write(f"{urlsplit(url).hostname}: status {status}\n")  # a path may hold a token
    return 0 if 200 <= status < 300 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
