"""Where the judges from outside cannot be had, a skip says why, and it is tried once."""

import sys
from pathlib import Path

import pytest

from tests.mcp.outside import node
from tests.services.server import Missing


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no Node but what a test puts into this folder."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere" / "python"))
    monkeypatch.setattr(node, "CACHE", tmp_path / "cache")
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("node", "packages"):
        monkeypatch.setattr(node, name, getattr(node, name).__wrapped__)
    return tmp_path


def script(folder: Path, name: str, *lines: str) -> None:
    path = folder / name
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


def test_no_node_is_said_to_be_none(bare: Path) -> None:
    with pytest.raises(Missing, match="none found"):
        node.node()


def test_a_node_that_is_too_old_is_named(bare: Path) -> None:
    script(bare, "node", "echo v22.18.0")
    with pytest.raises(Missing, match=r"node is v22\.18\.0"):
        node.node()
    script(bare, "node", "echo v22.19.0")
    assert node.node() == bare / "node"


def test_a_registry_that_does_not_answer_is_asked_once(bare: Path) -> None:
    script(bare, "node", "echo v24.0.0")
    script(bare, "npm", f"echo asked >> {bare}/asked", "echo no registry >&2", "exit 1")
    for _ in range(2):
        with pytest.raises(Missing, match="npm ci: no registry"):
            node.packages()
    assert (bare / "asked").read_text() == "asked\n"


def test_what_is_installed_is_not_installed_again(bare: Path) -> None:
    script(bare, "node", "echo v24.0.0")
    script(bare, "npm", f"echo asked >> {bare}/asked")
    assert node.packages() == node.packages()
    assert (bare / "asked").read_text() == "asked\n"
    assert (node.packages() / "client.mjs").exists()
