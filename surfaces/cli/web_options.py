"""The options of whatever serves the console: `up`, `gateway` and `web`."""

import socket
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import Decorator, stack

if TYPE_CHECKING:
    from ..web.serve import ConsoleAddress

PORT_DEFAULT = 8740
_FILE = click.Path(path_type=Path, dir_okay=False)


def console_options(port: str, *, about: str) -> Decorator:
    """`port` is the option that asks for it: with a value, or with none for the usual port."""
    return stack(
        click.option(
            port,
            "web_port",
            type=click.IntRange(0, 65_535),
            is_flag=False,
            flag_value=PORT_DEFAULT,
            metavar="[PORT]",
            help=f"{about}  [{PORT_DEFAULT}]",
        ),
        click.option(
            "--web-host", default="127.0.0.1", show_default=True, help="Where, for the console."
        ),
        click.option(
            "--web-cert", type=_FILE, help="Certificates for TLS, which any other host needs."
        ),
        click.option("--web-key", type=_FILE, help="The key to them."),
        click.option("--web-user", metavar="NAME", help="Who uses the console.  [you]"),
    )


def console_address(options: dict[str, Any]) -> "ConsoleAddress | None":
    """Where the console is to be; None where none is asked for. What cannot be is a usage error."""
    if options["web_port"] is None:
        if options["web_cert"] or options["web_key"] or options["web_user"]:
            raise click.UsageError("--web-cert, --web-key and --web-user are for --web")
        return None
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise click.UsageError("the console's server is missing: pip install 'understudy[web]'")
    from ..http.hosts import is_loopback, read_names  # only with a console
    from ..http.server import Certificate
    from ..web.serve import ConsoleAddress, Exposed

    chain, key, host = options["web_cert"], options["web_key"], options["web_host"]
    if (chain is None) != (key is None):
        raise click.UsageError("--web-cert and --web-key go together")
    for path in filter(None, (chain, key)):
        if not path.is_file():
            raise click.UsageError(f"{path}: there is no such file")
    certificate = Certificate(chain.absolute(), key.absolute()) if chain else None
    names = () if is_loopback(host) else read_names()
    try:
        return ConsoleAddress(host, options["web_port"], certificate, options["web_user"], names)
    except Exposed as error:
        raise click.UsageError(str(error)) from None


def console_words(address: "ConsoleAddress") -> list[str]:
    """The same as words of a command line, for a gateway that a tree starts."""
    words = ["--web", str(address.port), "--web-host", address.host]
    if address.certificate is not None:
        words += ["--web-cert", str(address.certificate.chain)]
        words += ["--web-key", str(address.certificate.key)]
    return [*words, "--web-user", address.user] if address.user else words


def taken(address: "ConsoleAddress") -> str | None:
    """Why nothing can listen there, in words; None where something can."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        with socket.create_server((address.host, address.port), family=family):
            return None
    except OSError as error:
        return f"{address.host} port {address.port}: {error.strerror or error}"
