"""Times on the command line: one way to write them, on every command."""

import click
import pytest

from tests.surfaces.conftest import Run
from understudy.surfaces.cli.main import cli
from understudy.surfaces.cli.options import TimeSpan


@pytest.mark.parametrize(
    ("time", "shown"),
    [("90s", "90.000 s"), ("1.5m", "90.000 s"), ("1h", "3600.000 s"), ("500ms", "0.500 s"),
     ("90", "90.000 s"), ("1.5", "1.500 s")],
)  # fmt: skip
def test_a_budget_of_time_is_written_as_any_other_time(call: Run, time: str, shown: str) -> None:
    said = call("budget", "set", "*", "--per", "work", "--seconds", time)
    assert (said.code, said.out) == (0, f"* per work: {shown}\n")


@pytest.mark.parametrize("time", ["1d", "soon", "", "1.2345", "1h30m"])
def test_a_budget_of_what_is_no_time_is_refused_with_an_example(call: Run, time: str) -> None:
    said = call("budget", "set", "*", "--per", "work", "--seconds", time)
    assert said.code == 2
    assert "such as 90" in said.err


def test_the_option_for_silence_is_taken_under_its_old_name_and_not_shown() -> None:
    context = click.Context(cli)
    for name in ("mcp", "gateway"):
        command = cli.get_command(context, name)
        assert command is not None
        assert "--quiet" not in command.get_help(click.Context(command))
        parsed = command.make_context(name, ["--quiet", "90s"])
        assert parsed.params["silence"] == 90
        [silence] = [each for each in command.params if each.name == "silence"]
        assert isinstance(silence.type, TimeSpan)
