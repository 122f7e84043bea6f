import asyncio
import errno
import gc
import io
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

import longhaul
from support import LOCALHOST, PATIENCE, Aside, pair, receive_all


class Streams(unittest.TestCase):
    def test_what_is_sent_arrives_both_ways_at_once(self):
        near, far = pair()
        there, back = os.urandom(10_000_001), os.urandom(9_000_000)

        def send(stream, data):
            stream.sendall(data)
            stream.shutdown(socket.SHUT_WR)

        sending = [Aside(send, near, there), Aside(send, far, back)]
        arriving = [Aside(receive_all, far), Aside(receive_all, near)]
        self.assertTrue(arriving[0].result() == there and arriving[1].result() == back)
        for work in sending:
            work.result()
        near.close()
        far.close()
        self.assertTrue(near.closed)
        near.close()

    def test_every_kind_of_buffer_is_taken(self):
        near, far = pair(streams=2, key=b"secret")
        whole = bytearray(os.urandom(3_000_000))
        numbers = memoryview(whole).cast("d")
        with near, far:
            for data in [bytes(whole), whole, memoryview(whole), memoryview(whole)[5:], numbers]:
                sending = Aside(near.sendall, data)
                got = memoryview(bytearray(len(whole)))[: memoryview(data).nbytes]
                filled = 0
                while filled < len(got):
                    filled += far.recv_into(got[filled:])
                sending.result()
                self.assertTrue(got == memoryview(data).cast("B"))
            with self.assertRaises(BufferError):
                near.sendall(memoryview(whole)[::2])
            with self.assertRaises(BufferError):
                far.recv_into(b"read only")
            with self.assertRaises(TypeError):
                near.sendall("text")
            self.assertEqual(near.send(memoryview(b"abc")[1:]), 2)
            room = bytearray(b"______")
            self.assertEqual(far.recv_into(memoryview(room)[2:], 1), 1)
            self.assertEqual((far.recv(10), room), (b"c", bytearray(b"__b___")))
            with self.assertRaises(ValueError):
                far.recv_into(room, 7)
            with self.assertRaises(ValueError):
                far.recv(-1)
            self.assertEqual(near.send(b""), 0)

    def test_files_over_streams(self):
        near, far = pair()
        with near, far:
            with near.makefile("w", encoding="utf-8") as text, far.makefile("r", encoding="utf-8") as lines:
                text.write("füßen\nsecond\n")
                text.flush()
                self.assertEqual([next(lines), next(lines)], ["füßen\n", "second\n"])
            with far.makefile("rwb") as both, near.makefile("rb", 0) as raw:
                both.write(b"back")
                both.flush()
                self.assertEqual(raw.read(100), b"back")
                near.sendall(b"a line\n")
                self.assertEqual(both.readline(), b"a line\n")
                with self.assertRaises(io.UnsupportedOperation):
                    raw.write(b"x")
            self.assertRaises(ValueError, near.makefile, "x")
            self.assertRaises(ValueError, near.makefile, "r", 0)
            self.assertRaises(ValueError, near.makefile, "")

    def test_timeouts_pass(self):
        near, far = pair()
        near.settimeout(0.02)
        self.assertEqual(near.gettimeout(), 0.02)
        with self.assertRaises(TimeoutError):
            near.recv(1)
        with self.assertRaises(TimeoutError):
            near.sendall(bytes(300_000_000))
        for bad in [0, -1, float("nan")]:
            with self.assertRaises(ValueError):
                near.settimeout(bad)
        near.settimeout(None)
        self.assertIsNone(near.gettimeout())
        far.shutdown(socket.SHUT_RD)
        with longhaul.listen(LOCALHOST, 0, timeout=0.02) as listener, self.assertRaises(TimeoutError):
            listener.accept()

    def test_the_other_side_ends(self):
        near, far = pair()
        far.shutdown(socket.SHUT_RDWR)
        self.assertEqual(near.recv(10), b"")
        with self.assertRaises(BrokenPipeError):
            while True:
                near.sendall(bytes(100_000))
        with self.assertRaises(ValueError):
            near.shutdown(17)

    def test_what_is_closed_says_so(self):
        near, far = pair()
        reading = Aside(near.recv, 1)
        near.close()
        far.close()
        try:
            # It waited, or came too late.
            self.assertEqual(reading.result(), b"")
        except OSError as error:
            self.assertEqual(error.strerror, "it was closed")
        for call in [near.stats, near.getsockname, lambda: near.recv(1), lambda: near.send(b"x")]:
            with self.assertRaisesRegex(OSError, "it was closed"):
                call()
        listener = longhaul.listen(LOCALHOST, 0)
        accepting = Aside(listener.accept)
        listener.close()
        with self.assertRaisesRegex(OSError, "it was closed"):
            accepting.result()
        self.assertIn("closed", repr(listener) + repr(near))

    def test_a_descriptor_cannot_stand_for_it(self):
        near, far = pair()
        with near, far, longhaul.listen(LOCALHOST, 0) as listener:
            for what in [near, listener]:
                with self.assertRaises(io.UnsupportedOperation):
                    what.fileno()

    def test_a_socket_can_be_made_of_it(self):
        near, far = pair()
        near, far = near.socket(), far.socket()
        with near, far:
            far.setblocking(False)
            with self.assertRaises(BlockingIOError):
                far.recv(1)
            near.sendall(b"x")
            self.assertEqual(select.select([], [far], [], PATIENCE)[1], [far])
            self.assertEqual(select.select([far], [], [], PATIENCE)[0], [far])
            self.assertEqual(far.recv(10), b"x")
            near.close()
            select.select([far], [], [], PATIENCE)
            self.assertEqual(far.recv(10), b"")

    def test_asyncio_has_streams_over_it(self):
        near, far = pair()
        sent = bytes(range(256)) * 20_000

        async def echo(stream):
            reader, writer = await asyncio.open_connection(sock=stream.socket())
            while piece := await reader.read(1 << 16):
                writer.write(piece)
                await writer.drain()
            writer.close()

        async def ask(stream):
            reader, writer = await asyncio.open_connection(sock=stream.socket())

            async def tell():
                writer.write(sent)
                await writer.drain()
                writer.write_eof()

            _, answer = await asyncio.gather(tell(), reader.read())
            writer.close()
            return answer

        async def both():
            return (await asyncio.wait_for(asyncio.gather(ask(near), echo(far)), PATIENCE))[0]

        self.assertTrue(asyncio.run(both()) == sent)
        with self.assertRaisesRegex(OSError, "it was closed"):
            near.socket()

    def test_a_socket_s_last_words_are_delivered_when_the_program_ends(self):
        code = ("import longhaul, sys; socket = longhaul.connect('127.0.0.1', int(sys.argv[1])).socket();"
                "socket.sendall(bytes(3_000_000))")
        with longhaul.listen(LOCALHOST, 0, timeout=PATIENCE) as listener:
            child = subprocess.Popen([sys.executable, "-c", code, str(listener.port)])
            far, _ = listener.accept()
            with far:
                far.settimeout(PATIENCE)
                self.assertEqual(len(receive_all(far)), 3_000_000)
            self.assertEqual(child.wait(PATIENCE), 0)

    def test_what_was_sent_is_delivered_though_forgotten(self):
        near, far = pair()
        near.sendall(b"last words")
        del near
        gc.collect()
        self.assertEqual(receive_all(far), b"last words")

    def test_an_exception_is_not_hidden_by_closing(self):
        near, far = pair()
        with self.assertRaises(KeyError):
            with near:
                near.sendall(b"so far")
                raise KeyError
        self.assertTrue(near.closed)
        self.assertEqual(receive_all(far), b"so far")

    def test_statistics(self):
        near, far = pair(streams=3)
        with near, far:
            far_reads = Aside(receive_all, far)
            near.sendall(bytes(1_000_000))
            while near.stats()["bytes_acked"] < 1_000_000:
                time.sleep(0.001)
            began = time.monotonic()
            while len(near.stats()["lanes"]) < 3:
                self.assertLess(time.monotonic(), began + PATIENCE)
            lane = near.stats()["lanes"][0]
            self.assertGreater(lane["rtt_seconds"], 0)
            self.assertEqual(near.stats()["bytes_written"], 1_000_000)
            near.shutdown(socket.SHUT_WR)
            self.assertEqual(len(far_reads.result()), 1_000_000)
            self.assertEqual(near.getpeername(), far.getsockname())

    def test_others_run_while_one_waits(self):
        near, far = pair()
        with near, far:
            waiting = Aside(far.recv, 5)
            # If the wait held the interpreter's lock, nothing here would run.
            self.assertEqual(sum(range(100_000)), 4_999_950_000)
            near.sendall(b"hello")
            self.assertEqual(waiting.result(), b"hello")


class Options(unittest.TestCase):
    def test_connections_begin_at_local_ends_in_turn(self):
        for places, ends in [("127.0.0.2", {"127.0.0.2"}), (("127.0.0.2", "127.0.0.3"), {"127.0.0.2", "127.0.0.3"})]:
            with longhaul.listen(LOCALHOST, 0) as listener:
                with longhaul.connect(LOCALHOST, listener.port, streams=1, local_ends=places) as stream:
                    far, address = listener.accept()
                    self.assertIn(address[0], ends)
                    self.assertEqual(stream.getsockname()[0], address[0])
                    far.close()


class Errors(unittest.TestCase):
    def test_refused(self):
        with socket.create_server((LOCALHOST, 0)) as server:
            port = server.getsockname()[1]
            with self.assertRaises(OSError) as taken:
                longhaul.listen(LOCALHOST, port)
            self.assertIn("in use", str(taken.exception))
        with self.assertRaises(ConnectionRefusedError):
            longhaul.connect(LOCALHOST, port)

    def test_a_wrong_key(self):
        with longhaul.listen(LOCALHOST, 0, key="right") as listener:
            with self.assertRaisesRegex(ConnectionRefusedError, "key") as refused:
                longhaul.connect(LOCALHOST, listener.port, key="wrong")
            self.assertEqual(refused.exception.errno, errno.EKEYREJECTED)
            with self.assertRaises(OSError):
                longhaul.connect(LOCALHOST, listener.port, plain=True)

    def test_something_else_listens(self):
        with socket.create_server((LOCALHOST, 0)) as server:
            with self.assertRaises(TimeoutError):
                longhaul.connect(LOCALHOST, server.getsockname()[1], timeout=0.1)

    def test_bad_arguments(self):
        for options in [{"streams": 0}, {"streams": 65}, {"streams": "many"}, {"key": b""}, {"timeout": 0},
                        {"patience": None}, {"congestion": "no such thing"}, {"local_ends": ["lo", ""]}, {"local_ends": "eth-99"}]:
            with self.assertRaises((ValueError, OSError), msg=options):
                longhaul.connect(LOCALHOST, 1, **options)
        for options in [{"key": 7}, {"nonsense": 1}, {"window": "wide"}, {"local_ends": 7}]:
            with self.assertRaises(TypeError, msg=options):
                longhaul.connect(LOCALHOST, 1, **options)
        with self.assertRaises(OverflowError):
            longhaul.connect(LOCALHOST, 65536)
        with self.assertRaises(OSError):
            longhaul.connect("", 1)

    def test_ctrl_c_interrupts_whatever_waits(self):
        cases = {
            "recv": "near.recv(1)",
            "send": "near.sendall(bytes(200_000_000))",
            "accept": "listener.accept()",
            "connect": "longhaul.connect('127.0.0.1', silent.getsockname()[1], timeout=60)",
            # As much as both sides hold, of which nothing is read.
            "close": "near.settimeout(0.2); fill(near); near.close()",
        }
        script = """
import longhaul, os, signal, socket
from contextlib import suppress
# Where the tests run in the background, a shell has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
silent = socket.create_server(("127.0.0.1", 0))
listener = longhaul.listen("127.0.0.1", 0, buffer=1 << 20, patience=60)
near = longhaul.connect("127.0.0.1", listener.port, buffer=1 << 20, patience=60)
far, _ = listener.accept()

def fill(stream):
    room = True
    while room or far.stats()["bytes_held"] < 7 << 17:
        room = False
        with suppress(TimeoutError):
            room = stream.send(bytes(100_000)) > 0

try:
    print("ready", flush=True)
    {work}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)
"""
        for name, work in cases.items():
            with self.subTest(name):
                child = subprocess.Popen([sys.executable, "-c", script.format(work=work)],
                                         stdout=subprocess.PIPE, text=True)
                self.addCleanup(child.kill)
                self.assertEqual(child.stdout.readline(), "ready\n")
                time.sleep(0.5)
                child.send_signal(signal.SIGINT)
                self.assertEqual(child.communicate(timeout=PATIENCE), ("interrupted\n", None))


if __name__ == "__main__":
    unittest.main()
