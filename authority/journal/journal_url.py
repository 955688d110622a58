"""Where a journal is that is not a file: the URL of a database, and how a folder remembers it.

    journal.url            one line, written by `understudy init --journal URL`, without a password
    UNDERSTUDY_JOURNAL     the same in full, where there is no `~/.pgpass`; never written down

A folder with `journal.url` has its journal in that database; `?schema=NAME` names one of several
journals there.
"""

import os
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from ...contracts import Reason, limits, regular_file
from . import private
from .journal import Unavailable
from .state_files import URL_FILE

VARIABLE = "UNDERSTUDY_JOURNAL"
_SCHEMES = ("postgresql", "postgres")
_PASSWORD = re.compile(r"(://[^:/@?#]*):[^@/?#]*@")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")


class JournalUrl(NamedTuple):
    """A journal in a database."""

    url: str  # as libpq takes it
    schema: str = "understudy"

    def __str__(self) -> str:
        """For people: without the password."""
        parts = urlsplit(self.url)
        netloc = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{netloc}{parts.path} ({self.schema})"


def parsed(url: str) -> JournalUrl:
    """The place that a URL names; `Unavailable` where it names none."""
    parts = _split(url)
    if parts.scheme not in _SCHEMES:
        raise Unavailable(Reason.JOURNAL_URL_INVALID, f"`{parts.scheme}:` is no journal")
    kept, schema = [], JournalUrl._field_defaults["schema"]
    for member in filter(None, parts.query.split("&")):
        name, _, value = member.partition("=")
        if name == "schema":
            schema = unquote(value)
        else:
            kept.append(member)
    if not _SCHEMA.fullmatch(schema):
        raise Unavailable(Reason.JOURNAL_URL_INVALID, f"schema `{schema}`")
    url = f"{parts.scheme}://{parts.netloc}{parts.path}"  # `urlunsplit` drops an empty host
    return JournalUrl("?".join([url, *filter(None, ["&".join(kept)])]), schema)


def of(state_dir: Path) -> JournalUrl | None:
    """The database that a folder's journal is in; None where it is a file of the folder."""
    written = _written(state_dir)
    if written is None:
        return None
    refuse_secret(written, URL_FILE)
    return parsed(os.environ.get(VARIABLE) or written)


def _written(state_dir: Path) -> str | None:
    path = state_dir / URL_FILE
    try:
        return regular_file.read(path, limits.SETTING_BYTES_MAX).decode()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Unavailable(Reason.STATE_DIR_DENIED, f"{path}: {error}") from error


def given() -> str | None:
    """The URL that the environment names, without its password."""
    url = os.environ.get(VARIABLE)
    return None if not url else _PASSWORD.sub(r"\1@", url)


def completed(url: str) -> JournalUrl:
    """The place that a URL names; with the password, where the environment names it in full."""
    whole = os.environ.get(VARIABLE)
    return parsed(whole if whole and parsed(given() or "") == parsed(url) else url)


def remember(state_dir: Path, url: str) -> None:
    """Write down where a folder's journal is; one that is elsewhere already stays there."""
    refuse_secret(url, "the URL")
    written = _written(state_dir)
    if written is not None:
        if parsed(written) != parsed(url):
            detail = f"{state_dir} has its journal in {parsed(written)}"
            raise Unavailable(Reason.JOURNAL_URL_INVALID, detail)
        return
    path = state_dir / URL_FILE
    fresh = path.with_suffix(".new")
    private.write(fresh, f"{url.strip()}\n".encode())
    fresh.replace(path)


def refuse_secret(url: str, where: str) -> None:
    """Raise `Unavailable` for a URL that must not be written down."""
    parts = _split(url)
    names = {member.partition("=")[0] for member in parts.query.split("&")}
    if parts.password is not None or "password" in names:
        detail = f"{where} has a password in it"
        raise Unavailable(Reason.JOURNAL_URL_INVALID, detail)


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url.strip())
    except ValueError:  # its words may repeat the URL
        raise Unavailable(Reason.JOURNAL_URL_INVALID, "it cannot be read") from None


def engine() -> ModuleType:
    """The engine that not everybody has installed."""
    try:
        return import_module(".postgres", __package__)
    except ImportError as error:
        raise Unavailable(Reason.JOURNAL_ENGINE_MISSING, str(error)) from error
