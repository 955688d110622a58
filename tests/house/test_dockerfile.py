"""The Dockerfile, as far as it can be judged without an engine: words, stages, files."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
INSTRUCTIONS = frozenset(
    ["ARG", "FROM", "RUN", "COPY", "WORKDIR", "USER", "VOLUME", "HEALTHCHECK", "ENTRYPOINT", "CMD"]
)


def _instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.split("\n"))]


def test_every_line_is_an_instruction() -> None:
    found = _instructions()
    assert {word for word, _ in found} <= INSTRUCTIONS
    assert found[0][0] == "ARG"
    assert found[1][0] == "FROM"


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"}
    bases = [rest for word, rest in _instructions() if word == "FROM"]
    stages = {rest.partition(" AS ")[2] for rest in bases}
    for word, rest in _instructions():
        if word != "COPY":
            continue
        *sources, _ = rest.split()
        if sources[0].startswith("--from="):
            assert sources[0].removeprefix("--from=") in stages
            continue
        for source in sources:
            assert (ROOT / source).exists(), source
            assert source in let_in


def test_it_runs_on_a_python_that_is_supported_and_not_as_root() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (version,) = [rest.partition("=")[2] for word, rest in _instructions() if word == "ARG"]
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]
    users = [rest for word, rest in _instructions() if word == "USER"]
    assert users
    assert users[-1] != "root"
    extras = re.search(r"\.whl\)\[([a-z,]+)\]", (ROOT / "Dockerfile").read_text("utf-8"))
    assert extras is not None
    assert set(extras[1].split(",")) <= project["optional-dependencies"].keys()
