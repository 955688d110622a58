"""A small repository to merge in, made by real git, alike on every machine."""

import os
from collections.abc import Mapping
from pathlib import Path

from understudy.actors.descent.git import Git
from understudy.actors.descent.overlap import SectionCommit

WHO = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "t"), ("EMAIL", "t@t"), ("DATE", "@1700000000 +0000"))
}
Body = bytes | tuple[str, bytes] | None  # content; mode and content; gone
Changes = Mapping[bytes, Body] | Mapping[str, Body] | Mapping[bytes | str, Body]


class Sandbox:
    """Commits are made from what they change; the working tree is touched only where asked."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.git = Git(folder)
        self._commits = 0
        self.git.run("init", "-q", "-b", "main")
        self.git.run("config", "user.name", "t")
        self.git.run("config", "user.email", "t@t")

    def commit(self, changes: Changes, *parents: str) -> str:
        """A commit upon the first parent, with other content at some paths."""
        env = WHO | {"GIT_INDEX_FILE": str(self.folder / ".git" / "index-of-a-test")}
        self.git.run("read-tree", *(parents[:1] or ["--empty"]), env=env)
        rows = b""
        for path, body in changes.items():
            raw = path if isinstance(path, bytes) else path.encode()
            mode, content = body if isinstance(body, tuple) else ("100644", body)
            if content is None:
                rows += b"0 " + b"0" * 40 + b"\t" + raw + b"\0"
            else:
                rows += f"{mode} {self._object(mode, content)}\t".encode() + raw + b"\0"
        self.git.run("update-index", "-z", "--index-info", stdin=rows, env=env)
        tree = self.git.text("write-tree", env=env)
        words = [word for parent in parents for word in ("-p", parent)]
        self._commits += 1
        return self.git.text("commit-tree", "-m", f"change {self._commits}", tree, *words, env=env)

    def section(self, base: str, changes: Changes) -> SectionCommit:
        """A section with one commit."""
        commit = self.commit(changes, base)
        return SectionCommit(commit[:8], base, commit)

    def branch(self, name: str, commit: str) -> None:
        self.git.run("update-ref", f"refs/heads/{name}", commit)

    def check_out(self) -> None:
        self.git.run("reset", "-q", "--hard")

    def show(self, commit: str, path: str | bytes) -> bytes:
        return self.git.run("cat-file", "blob", f"{commit}:{os.fsdecode(path)}").stdout

    def paths(self, commit: str) -> list[bytes]:
        return self.git.run("ls-tree", "-r", "-z", "--name-only", commit).stdout.split(b"\0")[:-1]

    def status(self) -> str:
        return self.git.text("status", "--porcelain")

    def _object(self, mode: str, content: bytes) -> str:
        if mode == "160000":
            return content.decode()
        return self.git.run("hash-object", "-w", "--stdin", stdin=content).stdout.decode().strip()


def lines(*changed: tuple[int, str], count: int = 20) -> bytes:
    """A file of numbered lines, some of them replaced."""
    rows = [f"line {number}" for number in range(count)]
    for number, text in changed:
        rows[number] = text
    return ("\n".join(rows) + "\n").encode()
