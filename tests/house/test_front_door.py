"""What a programmer meets first: the public names of the package, with a word about each."""

import pydoc
import subprocess
import sys

import understudy
from understudy.authority.service import client


def test_help_shows_every_public_name_and_what_it_is_for() -> None:
    text = pydoc.plain(pydoc.render_doc(understudy))
    for name in set(understudy.__all__) - {"__version__"}:
        assert name in text
        assert getattr(understudy, name).__doc__, name
    assert set(understudy.__all__) <= set(dir(understudy))


def test_the_clients_are_at_the_front() -> None:
    assert understudy.Client is client.Client
    assert understudy.AsyncClient is client.AsyncClient
    assert understudy.Call is client.Call


def test_the_package_is_imported_without_what_is_behind_it() -> None:
    code = (
        "import sys, understudy; dir(understudy); "
        "print(*(name for name in sys.modules if name.startswith('understudy.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
