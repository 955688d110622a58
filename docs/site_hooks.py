"""What MkDocs does not know of our pages: links beside docs/, and the list of decisions."""

import re
from pathlib import Path
from typing import Any

_BESIDE = re.compile(r"\]\((\.\./[^)#]+)(#[^)]*)?\)")
_FOLDER = "](adr/)"


def on_files(files: Any, config: Any) -> Any:
    """A page that lists the decisions, which are found by their folder elsewhere."""
    from mkdocs.structure.files import File

    rows = []
    for path in sorted((Path(config.docs_dir) / "adr").glob("*.md")):
        title = path.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        rows.append(f"- [{title}]({path.name})")
    text = "# Decisions\n\n" + "\n".join(rows) + "\n"
    files.append(File.generated(config, "adr/index.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Files of the repository that are no pages are named, not linked."""
    del config, files
    if page.file.src_uri.startswith("adr/"):
        return markdown
    return _BESIDE.sub("]", markdown.replace(_FOLDER, "](adr/index.md)"))
