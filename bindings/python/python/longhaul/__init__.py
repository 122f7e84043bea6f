"""Streams over several TCP connections, used as sockets are, and fast copies over long fat networks."""

from ._longhaul import CopyError, Listener, LiveControl, Progress, Stream, __version__, connect, copy, listen

__all__ = ["CopyError", "Listener", "LiveControl", "Progress", "Stream", "connect", "copy", "listen"]
