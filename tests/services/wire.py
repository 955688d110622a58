"""A wire to a server, in our hands: it can hold bytes back, swallow answers, and break."""

import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

Way = Literal["up", "down"]  # to the server, and from it
_RESET = struct.pack("ii", 1, 0)  # lingering not at all: the peer gets a reset


class Strand:
    """One connection through the wire."""

    def __init__(self, client: socket.socket, server: socket.socket, *, is_cut: bool) -> None:
        self._ends = {"up": (client, server), "down": (server, client)}
        self._open = {"up": threading.Event(), "down": threading.Event()}
        self.deaf = False  # answers are swallowed
        self.swallowed = threading.Event()
        self.ended = threading.Event()
        if not is_cut:
            self.release()
        for way in self._ends:
            threading.Thread(target=self._carry, args=(way,), daemon=True).start()

    def hold(self, *ways: Way) -> None:
        """From now on bytes wait."""
        for way in ways or ("up", "down"):
            self._open[way].clear()

    def release(self) -> None:
        """What waited goes on."""
        for each in self._open.values():
            each.set()

    def reset(self) -> None:
        """Break it, so that both sides notice."""
        for end, _ in self._ends.values():
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self.release()

    def _carry(self, way: Way) -> None:
        source, target = self._ends[way]
        with suppress(OSError):
            while data := source.recv(65_536):
                self._open[way].wait()
                if way == "down" and self.deaf:
                    self.swallowed.set()
                else:
                    target.sendall(data)
            self._open[way].wait()
            target.shutdown(socket.SHUT_WR)
        if way == "down":
            self.ended.set()


class Wire:
    """Listens for one server; leaving the block breaks everything."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self._is_cut = False
        self.strands: list[Strand] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Nothing goes through any more, and neither end is told."""
        self._is_cut = True
        for strand in self.strands:
            strand.hold()

    def heal(self) -> None:
        self._is_cut = False
        for strand in self.strands:
            strand.release()

    def reset(self) -> None:
        for strand in self.strands:
            strand.reset()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(str(self._server))
                except OSError:
                    server.close()
                    client.close()
                    continue
                self.strands.append(Strand(client, server, is_cut=self._is_cut))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        self.reset()
