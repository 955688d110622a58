"""Fibers on the command line: what people see of scopes, orphans and mistakes."""

import pytest

from .conftest import Scene


def test_a_fiber_lives_and_ends_on_the_command_line(scene: Scene) -> None:
    holder = scene.holder
    spawned = scene.run("fiber", "spawn", "w", "--task", "lint", *holder)
    name = spawned.out.split()[-1]
    assert name.startswith("fib-")
    scene.run("fiber", "spawn", "w", "--task", "one", "--fiber-id", "x", "--parent", name, *holder)
    assert scene.run("fiber", "list", "w").out == f"{name}  running  lint\n  x  running  one\n"
    assert f"fibers    {name}, x" in scene.run("issue", "show", "w").out
    refused = scene.run("fiber", "join", "w", name, *holder)
    assert (refused.code, "(fiber_scope_open)" in refused.err) == (5, True)
    assert scene.run("issue", "close", "w", *holder).code == 5
    assert scene.run("fiber", "join", "w", "x", "--result", "rejected", *holder).code == 0
    cancelled = scene.run("fiber", "cancel", "w", "--all", "--reason", "late", *holder)
    assert cancelled.out == f"cancelled {name}\n"
    assert scene.run("fiber", "cancel", "w", "--all", *holder).out == "cancelled nothing\n"
    assert scene.run("fiber", "list", "w").out == (
        f"{name}  cancelled  lint  late\n  x  joined  rejected  one\n"
    )
    assert scene.run("issue", "close", "w", *holder).code == 0
    assert scene.run("fiber", "list", "w").out == "no fibers\n"


def test_a_holder_that_takes_over_is_told_what_was_running(scene: Scene) -> None:
    assert scene.run("issue", "break", "t", "--reason", "gone").code == 0
    assert scene.run("fiber", "list", "t").out == "f1  orphaned  lint\n  f2  orphaned  one file\n"
    claimed = scene.run("issue", "claim", "t", "--assignee", "bob", "--lease-id", "b", "--json")
    fence = claimed.json["issue"]["lease"]["fence"]
    bob = ("--assignee", "bob", "--lease-id", "b", "--fence", str(fence))
    refused = scene.run("fiber", "join", "t", "f1", *bob)
    assert (refused.code, "(fiber_orphaned)" in refused.err) == (5, True)
    scene.run("fiber", "spawn", "t", "--task", "again", "--fiber-id", "f1", *bob)
    scene.run("issue", "update", "t", "--status", "open", *bob)
    assert scene.run("fiber", "list", "t").out == "f1  orphaned  again\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["cancel", "t"], 2, "name one fiber, or cancel them --all"),
        (["cancel", "t", "f1", "--all"], 2, "name one fiber, or cancel them --all"),
        (["spawn", "t"], 2, "Missing option '--task'"),
        (["join", "t", "f1", "--result", "perhaps"], 2, "'perhaps' is not one of"),
        (["join", "t", "f1"], 6, "lease_fence_missing"),
        (["list", "nowhere"], 3, "issue_not_found"),
        (["join", "t", "x y", "HOLDER"], 2, "fiber_invalid_payload"),
        (["join", "t", "nobody", "HOLDER"], 3, "fiber_not_found"),
        (["spawn", "t", "--task", "t", "--parent", "nobody", "HOLDER"], 3, "fiber_parent_not"),
        (["spawn", "t", "--task", " ", "HOLDER"], 2, "fiber_missing_field"),
    ],
)
def test_a_mistake_is_explained(scene: Scene, arguments: list[str], code: int, words: str) -> None:
    given = [word for word in arguments if word != "HOLDER"]
    said = scene.run("fiber", *given, *(scene.torn_holder if "HOLDER" in arguments else ()))
    assert (said.code, said.out) == (code, "")
    assert words in said.err
