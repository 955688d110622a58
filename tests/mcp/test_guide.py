"""The pages for agents and for people who set them up say what is so."""

import re
import tomllib
from pathlib import Path

import orjson
import pytest

from tests.mcp.visitor import Guest, connect, text
from understudy.actors.agents.authority_link import AuthorityLink
from understudy.contracts import BY_WIRE
from understudy.surfaces.cli.main import cli
from understudy.surfaces.cli.session import run
from understudy.surfaces.mcp.reading.guide import INSTRUCTIONS, page
from understudy.surfaces.mcp.tools.catalogue import entries
from understudy.surfaces.mcp.tools.tool_texts import LESSONS, NEXT

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "mcp.md").read_text()
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+\+00:00")


def _blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


def test_the_guide_names_every_tool_and_no_other() -> None:
    families = "work|issue|dep|fiber|sublease|instance|instruction|observe|job|spec|dispatch"
    families += "|node|route|limit|schedule|approval|pause"
    families += "|spend|budget|descent"
    words = set(re.findall(rf"\b(?:{families})_[a-z_]+\b", page()))
    assert set(entries()) <= words
    classes = set(BY_WIRE)
    assert words - classes - set(entries()) == set()


def test_descriptions_name_tools_that_exist() -> None:
    told = [each.text for each in LESSONS.values()] + list(NEXT.values())
    words = set(re.findall(r"\b(?:work|issue|dep|fiber)_[a-z_]+\b", " ".join(told)))
    assert words - set(BY_WIRE) - set(entries()) == set()


def test_advice_is_given_for_classes_that_exist() -> None:
    assert set(NEXT) <= set(BY_WIRE)


def test_the_command_prints_the_guide(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cli, ["agent-guide"]) == 0
    assert capsys.readouterr().out.startswith("# Understudy for agents\n\n" + INSTRUCTIONS)
    assert run(cli, ["agent-guide", "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)["guide"] == page()


def test_settings_that_people_copy_are_sound() -> None:
    words = ["mcp", "--state-dir", "/path/to/repo/.premath"]
    tables = [orjson.loads(block) for block in _blocks("json")]
    tables += [tomllib.loads(block) for block in _blocks("toml")]
    assert len(tables) == 3
    for table in tables:
        ((_, servers),) = table.items()
        assert servers["understudy"]["command"] == "understudy"
        assert servers["understudy"]["args"] == words


@pytest.mark.anyio
async def test_the_recorded_session_still_goes_as_it_is_told(desk: AuthorityLink) -> None:
    await desk.ask("issue.add", {"id": "us-1", "title": "Write the parser"})
    await desk.ask("issue.add", {"id": "us-2", "title": "Document it"})
    await desk.ask("dep.add", {"id": "us-2", "dependsOnId": "us-1"})
    (session,) = _blocks("text")
    steps = re.findall(r"^agent> (\w+) (.*)\n((?:(?!agent> ).*\n)+)", session, re.MULTILINE)
    assert len(steps) == session.count("agent> ")
    async with connect(desk, Guest("ada-1")) as client:
        for tool, arguments, told in steps:
            result = await client.call_tool(tool, orjson.loads(arguments))
            first = text(result).partition("\n")[0]
            assert _MOMENT.sub("then", first) == _MOMENT.sub("then", " ".join(told.splitlines()))
