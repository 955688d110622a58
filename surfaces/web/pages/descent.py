"""The page descent."""

from ..markup import tag
from ..view import Page, PageView


async def page(view: PageView) -> Page:
    del view
    return Page("descent", tag("h1", "descent"))
