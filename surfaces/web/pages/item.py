"""The page item."""

from ..markup import tag
from ..view import Page, PageView


async def issue_page(view: PageView) -> Page:
    del view
    return Page("item", tag("h1", "item"))


async def job_page(view: PageView) -> Page:
    del view
    return Page("item", tag("h1", "item"))
