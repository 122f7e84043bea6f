"""File objects over a stream, as socket.makefile() makes them."""

import io


class StreamIO(io.RawIOBase):
    """Reads and writes a stream. Closing it leaves the stream open."""

    def __init__(self, stream, readable, writable):
        super().__init__()
        self._stream = stream
        self._readable = readable
        self._writable = writable

    def readable(self):
        return self._readable and not self.closed

    def writable(self):
        return self._writable and not self.closed

    def readinto(self, buffer):
        self._check(self._readable, "reading")
        return self._stream.recv_into(buffer)

    def write(self, data):
        self._check(self._writable, "writing")
        return self._stream.send(data)

    def fileno(self):
        return self._stream.fileno()

    def _check(self, opened, purpose):
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if not opened:
            raise io.UnsupportedOperation(f"not opened for {purpose}")


def makefile(stream, mode, buffering, encoding, errors, newline):
    """A file object with the meaning of open()'s arguments; mode is made of r, w and b."""
    if not mode or not set(mode) <= set("rwb"):
        raise ValueError(f"invalid mode {mode!r}: only r, w and b are allowed")
    writes = "w" in mode
    reads = "r" in mode or not writes
    binary = "b" in mode
    raw = StreamIO(stream, reads, writes)
    if buffering == 0:
        if not binary:
            raise ValueError("unbuffered streams must be binary")
        return raw
    size = io.DEFAULT_BUFFER_SIZE if buffering < 2 else buffering
    if reads and writes:
        buffered = io.BufferedRWPair(raw, raw, size)
    elif reads:
        buffered = io.BufferedReader(raw, size)
    else:
        buffered = io.BufferedWriter(raw, size)
    if binary:
        return buffered
    text = io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering=buffering == 1)
    text.mode = mode
    return text
