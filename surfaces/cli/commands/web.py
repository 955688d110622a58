"""`understudy web`: the console, beside a tree or without one."""

import asyncio
import signal
import webbrowser
from typing import TYPE_CHECKING, Any

import click

from ....actors.tree import RUN_FOLDER
from ....authority.journal import private
from ....contracts import Exit
from ...web import link_socket
from ..options import acting
from ..session import Session, common, print_json
from ..web_options import PORT_DEFAULT, console_address, console_options, taken

if TYPE_CHECKING:
    from pathlib import Path

    from ...web.serve import ConsoleAddress


@click.command()
@console_options("--port", about="Where it listens.")
@click.option("--link", is_flag=True, help="Print another link to the one that runs, and leave.")
@acting("name", help="Whom the link is for: the name that stands in the evidence.  [you]")
@click.option("--open", "opens", is_flag=True, help="Open it in a browser here.")
@common
def web(session: Session, *, link: bool, name: str | None, opens: bool, **options: Any) -> None:
    """Serve the console until Ctrl-C: a page to see and steer everything.

    It prints a link that opens once, in one browser, which stays signed in for a week. The console
    listens on this machine alone. From another machine, forward its port:

    \b
      ssh -L 8740:127.0.0.1:8740 HOST

    Where a tree serves the console already (`understudy up --web`), a link to that is printed.
    Any other address than this machine's own needs TLS, and the name of the person who uses it:

    \b
      understudy web --web-host 0.0.0.0 --web-cert cert.pem --web-key key.pem --web-user ada

    Exit 7 where --link finds no console.
    """
    run_dir = session.state_dir.absolute() / RUN_FOLDER
    found = link_socket.find_link(run_dir, name or "") if run_dir.is_dir() else None
    if found is not None:
        session.accept(found, url=found)
        if opens:
            webbrowser.open(found)
        return
    if link:
        said = "no console runs here; `understudy web` and `understudy up --web` start one"
        session.refuse(Exit.UNREACHABLE, "console_not_running", said)
    options["web_port"] = PORT_DEFAULT if options["web_port"] is None else options["web_port"]
    options["web_user"] = options["web_user"] or name
    address = console_address(options)
    assert address is not None
    session.office(writable=False).close()  # says what is wrong with the state directory
    if (why := taken(address)) is not None:
        session.refuse(Exit.FAILED, "port_taken", f"{why}; name another one: --port PORT")
    _serve(session, address, run_dir, opens=opens)


def _serve(session: Session, address: "ConsoleAddress", run_dir: "Path", *, opens: bool) -> None:
    from ....actors.agents import SidecarOwner  # no other command needs them
    from ...web.serve import serve_console

    def announce(url: str) -> None:
        if session.as_json:
            print_json({"result": "accepted", "failureClasses": [], "url": url})
        else:
            click.echo(url)
            click.echo("it opens once; Ctrl-C ends the console", err=True)
        if opens:
            webbrowser.open(url)

    async def serve() -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, stopping.set)
        private.make_folder(run_dir)
        state_dir = session.state_dir.absolute()
        async with SidecarOwner(state_dir, run_dir) as owner:
            await serve_console(
                address,
                state_dir,
                run_dir,
                stopping,
                announce=announce,
                make_room=owner.step_back,
            )

    asyncio.run(serve())
