"""The prompt of `understudy sql`: a semicolon ends a question, and a dot begins a command."""

import os
from contextlib import suppress
from pathlib import Path

import click

from ...authority import Unavailable
from ...authority.views import sql
from .commands.sql import put, said
from .table_text import Form

_HISTORY_LINES = 1_000
_HELP = """\
SELECT ...;       ask the tables; the semicolon ends a question, on as many lines as it takes
.tables           which tables there are, and what they show
.schema [TABLE]   their columns
.help             this page
.quit             leave, as Ctrl-D does; Ctrl-C drops the line, or ends a question that takes long
Moments are milliseconds since 1970. Nothing can be changed here."""


class Shell:
    """Reads, asks, prints; whatever goes wrong is said, and the next question is waited for."""

    def __init__(self, inquiry: sql.Inquiry, form: Form) -> None:
        self._inquiry, self._form = inquiry, form

    def run(self) -> None:
        click.echo("Reads the SQL tables. `.help` says how; `.quit` leaves.", err=True)
        with _history():
            rest = ""
            while True:
                try:
                    line = input("    ...> " if sql.bare(rest) else "understudy> ")
                    statements, rest = self._taken(rest, line)
                    for statement in statements:
                        self._ask(statement)
                except KeyboardInterrupt:
                    click.echo("", err=True)
                    rest = ""
                except EOFError:
                    click.echo("", err=True)
                    return
                except _Quit:
                    return

    def _taken(self, rest: str, line: str) -> tuple[list[str], str]:
        if not sql.bare(rest) and line.lstrip().startswith("."):
            self._obey(line.split())
            return [], ""
        return sql.split(f"{rest}{line}\n")

    def _ask(self, statement: str) -> None:
        try:
            fresh = self._inquiry.freshen()
            count = put(self._inquiry, statement, self._form)
        except (sql.BadQuery, Unavailable) as error:
            click.echo(f"error: {error}", err=True)
        else:
            click.echo(said(fresh, count), err=True)

    def _obey(self, words: list[str]) -> None:
        match words:
            case [".quit" | ".exit"]:
                raise _Quit
            case [".help"]:
                click.echo(_HELP)
            case [".tables"]:
                for table in sql.SCHEMA:
                    click.echo(f"{table.name:<15} {table.about}")
            case [".schema"]:
                click.echo("\n".join(table.ddl("sqlite").rstrip() for table in sql.SCHEMA))
            case [".schema", name] if found := [each for each in sql.SCHEMA if each.name == name]:
                click.echo(found[0].ddl("sqlite").rstrip())
            case [".schema", name]:
                click.echo(f"error: there is no table `{name}`; see .tables", err=True)
            case _:
                click.echo(f"error: `{' '.join(words)}` is no command; see .help", err=True)


class _Quit(Exception):
    pass


class _history:  # noqa: N801 - used as a function
    """Lines of earlier questions, where the interpreter can edit lines."""

    def __enter__(self) -> None:
        self._path = _history_path()
        with suppress(ImportError, OSError):
            import readline  # at a prompt, and where there is one

            readline.set_history_length(_HISTORY_LINES)
            readline.read_history_file(self._path)

    def __exit__(self, *_: object) -> None:
        with suppress(ImportError, OSError):
            import readline

            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            readline.write_history_file(self._path)


def _history_path() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "understudy" / "sql_history"
