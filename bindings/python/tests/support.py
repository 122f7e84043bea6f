"""What the tests share."""

import os
import threading
import unittest

import longhaul

LOCALHOST = "127.0.0.1"
PATIENCE = 60
"""Seconds that nothing takes longer than, whatever else the machine does."""


def pair(**options):
    """Both ends of a stream over loopback."""
    with longhaul.listen(LOCALHOST, 0, timeout=PATIENCE, **options) as listener:
        near = longhaul.connect(LOCALHOST, listener.port, timeout=PATIENCE, **options)
        far, address = listener.accept()
    assert address == near.getsockname()
    far.settimeout(PATIENCE)
    return near, far


def receive_all(stream):
    """Everything up to the end."""
    pieces = []
    while piece := stream.recv(1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


class Aside(threading.Thread):
    """Does something in another thread; `result()` waits for it and raises what it raised."""

    def __init__(self, work, *args):
        super().__init__(daemon=True)
        self._work, self._args = work, args
        self._outcome = self._error = None
        self.start()

    def run(self):
        try:
            self._outcome = self._work(*self._args)
        except BaseException as error:
            self._error = error

    def result(self):
        self.join(PATIENCE)
        assert not self.is_alive(), "it did not come to an end"
        if self._error is not None:
            raise self._error
        return self._outcome


def program(variable):
    """The path of a program that the Makefile has built, or skip the test."""
    path = os.environ.get(variable)
    if not path:
        raise unittest.SkipTest(f"{variable} names no program; make python sets it")
    return path
