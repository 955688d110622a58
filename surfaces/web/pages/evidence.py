"""The page evidence."""

from ..markup import tag
from ..view import Page, PageView


async def page(view: PageView) -> Page:
    del view
    return Page("evidence", tag("h1", "evidence"))


async def row_page(view: PageView) -> Page:
    del view
    return Page("evidence", tag("h1", "evidence"))


async def vector(view: PageView) -> Page:
    del view
    return Page("evidence", tag("h1", "evidence"))


async def proof_page(view: PageView) -> Page:
    del view
    return Page("evidence", tag("h1", "evidence"))
