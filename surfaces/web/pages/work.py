"""The page work."""

from ..markup import tag
from ..view import Page, PageView


async def page(view: PageView) -> Page:
    del view
    return Page("work", tag("h1", "work"))
