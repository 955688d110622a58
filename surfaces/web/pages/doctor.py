"""The page doctor."""

from ..markup import tag
from ..view import Page, PageView


async def page(view: PageView) -> Page:
    del view
    return Page("doctor", tag("h1", "doctor"))
