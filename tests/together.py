"""One test for many cases: all of them are tried, and every one that fails is named.

`together` stands where `pytest.mark.parametrize` would, if a case takes milliseconds: each worker
collects, sends and reports cases one by one, which then costs more than the cases themselves.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

Test = Callable[..., None]
Values = dict[str, Any]


def together(
    names: str | Sequence[str],
    cases: Iterable[Any],
    *,
    ids: Iterable[str] | Callable[[Any], object] | None = None,
    **made: Callable[[], object],
) -> Callable[[Test], Test]:
    """Call a test for each case, with a folder and a monkeypatch of its own where it asks for one.

    What is `made` is made anew for each case; other fixtures are the same for all of them.
    """
    fields = [each.strip() for each in names.split(",")] if isinstance(names, str) else [*names]
    known = _named(fields, [*cases], ids)
    assert known, "there is nothing to try"

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def every(**fixtures: Any) -> None:  # whatever pytest hands over
            failures: list[tuple[str, BaseException]] = []
            for number, (name, values) in enumerate(known):
                fresh = {each: make() for each, make in made.items()}
                try:
                    _call(test, number, fixtures, values | fresh)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"in the case {name}")
                    if str(error).startswith("Timeout "):  # of the whole test, by pytest-timeout
                        raise
                    failures.append((name, error))
            if failures:
                text = "; ".join(name for name, _ in failures)
                count = f"{len(failures)} of {len(known)}"
                raise BaseExceptionGroup(f"{count} fail: {text}", [error for _, error in failures])

        asked = inspect.signature(test)
        ours = {*fields, *made}
        missing = [each for each in asked.parameters.values() if each.name not in ours]
        every.__signature__ = asked.replace(parameters=missing)  # type: ignore[attr-defined]  # pytest reads it
        return every

    return decorate


def _named(
    fields: list[str], cases: list[Any], ids: Iterable[str] | Callable[[Any], object] | None
) -> list[tuple[str, Values]]:
    sets = [ParameterSet.extract_from(case, force_tuple=len(fields) == 1) for case in cases]
    if ids is None:
        names = [str(each.id or _short(each.values)) for each in sets]
    elif callable(ids):
        names = ["-".join(str(ids(value)) for value in each.values) for each in sets]
    else:
        names = [*ids]
    values = [dict(zip(fields, each.values, strict=True)) for each in sets]
    return [*zip(names, values, strict=True)]


def _call(test: Test, number: int, fixtures: Values, values: Values) -> None:
    own = dict(fixtures)
    with pytest.MonkeyPatch.context() as patch:
        if "monkeypatch" in own:
            own["monkeypatch"] = patch
        if "tmp_path" in own:
            folder: Path = own["tmp_path"] / str(number)
            folder.mkdir()
            own["tmp_path"] = folder
        test(**own, **values)


def _short(values: Sequence[object]) -> str:
    text = ", ".join(map(repr, values))
    return text if len(text) <= 80 else f"{text[:77]}..."
