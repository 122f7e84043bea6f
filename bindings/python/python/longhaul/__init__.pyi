import socket as _socket
from collections.abc import Callable, Sequence
from os import PathLike
from types import TracebackType
from typing import IO, Any, Literal, TypeAlias

__version__: str
__all__ = ["CopyError", "Listener", "LiveControl", "Progress", "Stream", "connect", "copy", "listen"]

_Address: TypeAlias = tuple[str, int] | tuple[str, int, int, int]
_Bytes: TypeAlias = bytes | bytearray | memoryview
_Path: TypeAlias = str | PathLike[str]

def connect(
    host: str,
    port: int,
    streams: int | Literal["auto"] = "auto",
    key: str | bytes | None = None,
    plain: bool = False,
    timeout: float | None = None,
    *,
    window: int = ...,
    congestion: str = ...,
    nodelay: bool = True,
    buffer: int = ...,
    patience: float = 10.0,
    stall_timeout: float = 5.0,
    remember: bool = True,
    local_ends: str | Sequence[str] = (),
) -> Stream:
    """Connect to a listener.

    streams        TCP connections: 1 to 64, or "auto" for as many as turn out to be best
    key            a secret that both sides know; without one data is sealed, but anybody may connect
    plain          let data travel in clear; both sides must say so
    timeout        seconds that connecting may take (10 if None), and then the stream's timeout
    window         bytes of each TCP socket's buffers; the kernel sizes them otherwise
    congestion     TCP congestion control, one of those that the kernel has
    nodelay        send small writes at once
    buffer         bytes held at most in each direction, 64 MiB otherwise
    patience       seconds to try for a new connection when none is left, and for which close() waits while nothing
                   gets through
    stall_timeout  seconds after which a connection that gets nothing through is replaced
    remember       begin with the number of connections that was best last time; keep what is found
    local_ends     where on this host connections begin: addresses or names of network interfaces, which they take in
                   turn; wherever the way to the other host does otherwise
    """

def listen(
    host: str | None,
    port: int,
    streams: int | Literal["auto"] = "auto",
    key: str | bytes | None = None,
    plain: bool = False,
    timeout: float | None = None,
    *,
    window: int = ...,
    congestion: str = ...,
    nodelay: bool = True,
    buffer: int = ...,
    patience: float = 10.0,
    stall_timeout: float = 5.0,
    remember: bool = True,
) -> Listener:
    """Wait for streams. None or "" as host stands for all addresses, 0 as port for a free one. The timeout is that of
    accept(); the rest is as for connect()."""

def copy(
    src: _Path | Sequence[_Path],
    dst: _Path,
    *,
    progress: Callable[[Progress], object] | None = None,
    warning: Callable[[str], object] | None = None,
    remark: Callable[[float, str], object] | None = None,
    transport: Literal["auto", "object", "stripe", "ssh"] | None = None,
    streams: int | Literal["auto"] | None = None,
    congestion: str | None = None,
    rate: float | None = None,
    control: str | None = None,
    select: str | None = None,
    background: bool | None = None,
    ack_every: int | None = None,
    batch: int | None = None,
    packet_size: int | None = None,
    stall_timeout: float | None = None,
    token: str | None = None,
    dest_token: str | None = None,
    via_here: bool | None = None,
    ports: tuple[int, int] | None = None,
    ssh: str | None = None,
    files_from: Sequence[_Path] | None = None,
    exclude: Sequence[str] | None = None,
    resume: bool | None = None,
    checksum: bool | None = None,
    delta: Literal["auto", "always", "never"] | None = None,
    delete: bool | None = None,
    fsync: bool | None = None,
    dry_run: bool | None = None,
    archive: bool | None = None,
    hard_links: bool | None = None,
    xattrs: bool | None = None,
    acls: bool | None = None,
    owner: bool | None = None,
    group: bool | None = None,
    devices: bool | None = None,
    specials: bool | None = None,
    numeric_ids: bool | None = None,
    dscp: str | None = None,
    scitag: str | None = None,
    firefly: str | None = None,
    bind: str | Sequence[str] | None = None,
    paths: Literal["one", "auto"] | None = None,
    live: LiveControl | None = None,
) -> dict[str, Any]:
    """Copy files and folders to or from another host or between two, as `longhaul cp` does, and return what --json tells, with
    "failures", a list of (path, reason). None stands for what is usual.

    Places are written as for `longhaul cp`: path, [user@]host:path, longhaul://host[:port]/path. Over ssh the far side
    needs longhaul installed. progress is called ten times a second, remark with what --why tells, in the calling
    thread; what they raise ends the copy, and so does Ctrl-C. transport, streams and congestion say what carries the
    data, as --transport, --streams and --congestion do. rate is in bits per second; the token is LONGHAUL_TOKEN's
    if none is given. dest_token and via_here do what --dest-token-file and --via here do. The options from archive to
    paths are those of `longhaul cp` with the same names: what is kept of files, what routers and networks are told, and
    where on this host it sends from. What is said beside archive counts. live is a hand on the copy while it runs; its rate counts in
    place of rate.

    Raises CopyError if not all was copied, ValueError if the request makes no sense.
    """

class Stream:
    """An ordered stream of bytes both ways over several TCP connections, used as a socket is. Made by connect() and
    Listener.accept().

    As a context manager it is closed at the end; if that is an exception, what was sent is delivered in the background.
    """

    def send(self, data: _Bytes, /) -> int:
        """Send bytes. Returns how many were taken."""
    def sendall(self, data: _Bytes, /) -> None:
        """Send all of the bytes. The timeout is for all of them."""
    def recv(self, bufsize: int, /) -> bytes:
        """Receive at most so many bytes; b"" at the end of what the other side has sent."""
    def recv_into(self, buffer: bytearray | memoryview, nbytes: int = 0) -> int:
        """Receive bytes into a buffer, at most nbytes unless that is 0. Returns how many came, 0 at the end."""
    def makefile(
        self,
        mode: str = "r",
        buffering: int = -1,
        *,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """A file object over the stream, as socket.makefile() makes it. The stream stays open when it is closed."""
    def shutdown(self, how: int, /) -> None:
        """End receiving, sending or both: socket.SHUT_RD, SHUT_WR, SHUT_RDWR."""
    def close(self) -> None:
        """Wait until the other side has all that was sent, and end. Raises an OSError if it does not get it. Nothing
        waits for a stream that is merely forgotten, nor for one that is open when the program ends."""
    def settimeout(self, timeout: float | None, /) -> None:
        """How many seconds sending and receiving may take; None for ever. There is no non-blocking mode."""
    def gettimeout(self) -> float | None:
        """What settimeout() has set."""
    def getsockname(self) -> _Address:
        """Where the first connection begins."""
    def getpeername(self) -> _Address:
        """Where the first connection leads."""
    def socket(self) -> _socket.socket:
        """The stream as a socket of the system's, for select, asyncio and whatever else wants one; this object is closed then.
        Its own addresses are of loopback. Closing it does not wait: what was sent is delivered in the background, and before
        sys.exit() is done, unless nothing gets through for ten seconds, the program was killed, or the socket was closed with
        something unread."""
    def fileno(self) -> int:
        """Raises io.UnsupportedOperation: no descriptor stands for all connections. Take socket()."""
    def stats(self) -> dict[str, Any]:
        """How it is doing: bytes, and its connections ("lanes")."""
    @property
    def closed(self) -> bool:
        """Whether close() was called."""
    def __enter__(self) -> Stream: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

class Listener:
    """Waits for streams at an address. Made by listen(); a context manager that is closed at the end. Streams that came
    through it live on."""

    def accept(self) -> tuple[Stream, _Address]:
        """Wait for the next stream. Returns it with the address that it comes from."""
    def getsockname(self) -> _Address:
        """Where it waits."""
    @property
    def port(self) -> int:
        """The port at which it waits."""
    def settimeout(self, timeout: float | None, /) -> None:
        """How many seconds accept() may take; None for ever."""
    def gettimeout(self) -> float | None:
        """What settimeout() has set."""
    def fileno(self) -> int:
        """Raises io.UnsupportedOperation: streams are met by a thread of longhaul's own."""
    def close(self) -> None:
        """Take no further streams. An accept() that waits raises an OSError."""
    @property
    def closed(self) -> bool:
        """Whether close() was called."""
    def __enter__(self) -> Listener: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

class LiveControl:
    """A hand on a copy while it runs, to be given to copy() as live. Any thread may use it, and so may the callbacks.
    Whichever side sends obeys; RuntimeError if a host of the copy cannot be told."""

    def __init__(self, rate: float | None = None) -> None:
        """With this rate to begin with, in bits per second; None: any."""
    @property
    def rate(self) -> float | None:
        """How fast the copy may go, in bits per second; None: as fast as the path takes it. Can be set."""
    @rate.setter
    def rate(self, rate: float | None) -> None: ...
    @property
    def paused(self) -> bool:
        """Whether nothing is sent."""
    def pause(self) -> None:
        """Send nothing from now on; the connection is kept."""
    def resume(self) -> None:
        """Go on."""

class Progress:
    """How far a copy is."""

    @property
    def phase(self) -> Literal["connecting", "comparing", "moving", "verifying"]:
        """What it is doing."""
    @property
    def bytes_done(self) -> int:
        """Data bytes that the receiver has, with those skipped and resumed."""
    @property
    def bytes_total(self) -> int:
        """Data bytes in all."""
    @property
    def files_done(self) -> int | None:
        """Files in place, with those skipped; None where the receiver is of an earlier version."""
    @property
    def files_total(self) -> int:
        """Files in all."""
    @property
    def goodput_bps(self) -> int:
        """New data in bits per second over the last second or so."""
    @property
    def loss(self) -> float:
        """Share of datagrams lost on the path lately, 0 to 1."""
    @property
    def rtt_seconds(self) -> float:
        """Latest smoothed round trip."""
    @property
    def limited_by(self) -> str:
        """What holds it back now: path, loss, source, target, receiver, cpu, rate_cap, policer, paused, none."""

class CopyError(OSError):
    """A copy that was not done, or not all of it. What arrived is kept: the same copy again goes on."""

    summary: dict[str, Any] | None
    """What copy() would have returned, if the copy ran to its end and single files failed; None if it broke off."""

    cause: str
    """What kind of failure it is (of the first file, where single files failed): no_space, denied, not_found, changed,
    in_use, unreachable, wrong_token, wrong_version, refused, no_port, udp_blocked, size_blocked, tcp_blocked, silent,
    peer_left, interrupted, request, other."""
