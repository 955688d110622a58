"""The page logs."""

from ..markup import tag
from ..view import Page, PageView


async def page(view: PageView) -> Page:
    del view
    return Page("logs", tag("h1", "logs"))


async def read(view: PageView) -> Page:
    del view
    return Page("logs", tag("h1", "logs"))


async def download(view: PageView) -> Page:
    del view
    return Page("logs", tag("h1", "logs"))
