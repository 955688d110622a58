"""One word, one meaning: class names are not used twice, and a predicate only looks."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("contracts", "authority", "actors", "mesh", "surfaces")
PREDICATES = ("is_", "_is_", "has_", "_has_")
# Calls that change what they are called on; a predicate makes none of them on what it was given.
ACTS = {
    "add", "append", "clear", "close", "commit", "discard", "execute", "extend", "insert", "kill",
    "load_extension", "pop", "popleft", "remove", "send", "sendall", "setdefault", "terminate",
    "unlink", "update", "wal_checkpoint", "write", "write_bytes", "write_text",
}  # fmt: skip
# Predicates that do one of these and still only look, each with its reason.
LOOKING = {
    "warden._has_parents": "signal 0 asks whether a process is there",
    "transcript.is_written": "closes the descriptor that it opened to look",
    "job_file_format._is_there": "closes the descriptor that it opened to look",
    "until_done._is_any_undispatched": "turns a page of its own",
}


def _nodes() -> Iterator[tuple[Path, ast.AST]]:
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                yield path.relative_to(ROOT), node


def test_no_two_classes_share_a_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path, node in _nodes():
        if isinstance(node, ast.ClassDef):
            homes[node.name].append(str(path))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def _acts(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """What a function does beyond looking: what it assigns on others, and calls that change."""
    for node in ast.walk(function):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AugAssign) else targets
        for target in targets:
            if isinstance(target, ast.Attribute | ast.Subscript):
                yield ast.unparse(target)
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in ACTS:
            yield ast.unparse(called)


def test_a_predicate_changes_nothing() -> None:
    acting = {
        f"{path.stem}.{node.name}": sorted(set(_acts(node)))
        for path, node in _nodes()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith(PREDICATES)
        and any(_acts(node))
    }
    assert {name: acts for name, acts in acting.items() if name not in LOOKING} == {}
    assert LOOKING.keys() <= acting.keys(), "what no longer does so needs no exception"
