"""Which names and addresses in a request are ours, so that no foreign web page can speak for us."""

import ipaddress
import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from urllib.parse import urlsplit

NAMES_VARIABLE = "UNDERSTUDY_HTTP_NAMES"


def read_names(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The host names in our URLs, where a proxy or a name server gives us some."""
    return tuple(environ.get(NAMES_VARIABLE, "").replace(",", " ").lower().split())


class OwnHosts:
    """The hosts under which a listener may be called.

    An address cannot be bent by a foreign name server; a name must be one of ours.
    """

    def __init__(self, host: str, names: Iterable[str] = ()) -> None:
        self.is_only_loopback = is_loopback(host)
        self._names = {"localhost", *names}
        if not self.is_only_loopback:
            self._names |= {host.lower(), socket.gethostname().lower()}

    def has(self, host: str | None) -> bool:
        """Whether it is one of ours; `host_of` finds it in a header."""
        if host is None:
            return False
        try:
            found = ipaddress.ip_address(host)
        except ValueError:
            return host.lower() in self._names
        return found.is_loopback or not self.is_only_loopback


def is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def host_of(text: str) -> str | None:
    """The host that a URL names; None where it names none."""
    with suppress(ValueError):
        parts = urlsplit(text)
        _ = parts.port  # which may not be a number
        return parts.hostname
    return None
