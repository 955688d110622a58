"""Processes that belong to no system, and what they say to everything that listens in one."""

import os
import pickle
import random
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from understudy.actors.otp.identity import Identity

NOBODY = 65_534
SIX_BYTES = b"-5>abc"  # a length that Thespian hands to `recv` as it is
GARBAGE = (
    SIX_BYTES,
    b"0>",
    b">",
    b"-1>",
    b"+5>abcde",
    b"1_0>0123456789",
    b"\xd9\xa3>abc",  # a digit, and none of ours
    b"5" * 100,
    b"9" * 5_000 + b">",
    b"1000000000>" + bytes(1_000),
    b"100>" + bytes(100),
    b"18>" + bytes(18),
    b"{}\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    bytes(4_096),
)
_LISTENS = "0A"
_IS_LISTENING = 0x10000

T = TypeVar("T")
Address = tuple[str, int] | str


def listeners(processes: Iterable[Identity], *folders: Path) -> list[Address]:
    """Where processes listen: over TCP, or on Unix sockets that lie in one of the folders."""
    inodes = {inode for each in processes for inode in _sockets(each)}
    return [*_tcp(inodes), *_unix(inodes, folders)]


def _sockets(who: Identity) -> Iterator[str]:
    with suppress(FileNotFoundError):  # it has ended, or has closed it
        for fd in Path(f"/proc/{who.pid}/fd").iterdir():
            kind, _, inode = str(fd.readlink()).partition(":")
            if kind == "socket":
                yield inode.strip("[]")


def _tcp(inodes: set[str]) -> Iterator[Address]:
    for name in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if inode in inodes and (state == _LISTENS or name.startswith("udp")):
                host, port = local.split(":")
                yield socket.inet_ntoa(bytes.fromhex(host)[3::-1]), int(port, 16)


def _unix(inodes: set[str], folders: Iterable[Path]) -> Iterator[Address]:
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        _, _, _, flags, _, _, inode, *path = line.split()
        if inode in inodes and int(flags, 16) & _IS_LISTENING:
            # Bound by way of a descriptor of its folder, and under a name that it had until then.
            name = path[0].rpartition("/")[2].removeprefix(".")
            (found,) = [str(each / name) for each in folders if (each / name).is_socket()]
            yield found


def connected(address: Address) -> socket.socket:
    line = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    try:
        line.connect(address)  # and wait where its backlog is full
        line.settimeout(20)
    except BaseException:
        line.close()
        raise
    return line


def say(address: Address, data: bytes) -> bytes:
    """What is answered before the connection ends; `TimeoutError` where it does not end."""
    answer = b""
    with connected(address) as line, suppress(ConnectionResetError, BrokenPipeError):
        line.sendall(data)
        with suppress(OSError):  # it has hung up by now
            line.shutdown(socket.SHUT_WR)
        while part := line.recv(65_536):
            answer += part
    return answer


def heard(address: Address, data: bytes) -> str:
    """What is answered, or the name of what goes wrong."""
    try:
        return repr(say(address, data))
    except OSError as error:
        return type(error).__name__


def nonsense(seed: int, count: int) -> Iterator[bytes]:
    """Frames that are nearly right, in ways that a seed decides."""
    dice = random.Random(seed)
    for _ in range(count):
        body = dice.randbytes(dice.choice((0, 1, 18, 64, 65, 500)))
        head = dice.choice((len(body), -len(body), dice.randrange(-(10**6), 10**9)))
        marks = dice.choice((b">", b"", b">>", b" >", b"\0>"))
        data = bytearray(b"%d%s%s" % (head, marks, body))
        for _ in range(dice.randrange(3)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        yield bytes(data)


def as_nobody(do: Callable[[], T]) -> T:
    """What it gives in a process of another user."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writer, pickle.dumps(do()))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    value: T = pickle.loads(data)
    return value


def peak_bytes(pid: int) -> int:
    """The most memory that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1_024 for line in lines if line.startswith("VmHWM"))
