"""Against programs in other languages, and what the documentation says."""

import ast
import difflib
import io
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from contextlib import redirect_stdout
from pathlib import Path

import longhaul
from support import LOCALHOST, PATIENCE, Aside, program, receive_all

PROJECT = Path(__file__).resolve().parents[1]


class OtherLanguages(unittest.TestCase):
    def test_c_sends_to_python(self):
        sent = os.urandom(5_000_000)
        with longhaul.listen(LOCALHOST, 0, timeout=PATIENCE) as listener, tempfile.NamedTemporaryFile() as file:
            file.write(sent)
            file.flush()
            sender = subprocess.Popen([program("LONGHAUL_C_FILE"), "send", LOCALHOST, str(listener.port), file.name])
            stream, _ = listener.accept()
            with stream:
                self.assertTrue(receive_all(stream) == sent)
            self.assertEqual(sender.wait(PATIENCE), 0)

    def test_python_sends_to_c(self):
        sent = os.urandom(5_000_000)
        with tempfile.NamedTemporaryFile() as file:
            receiver = subprocess.Popen([program("LONGHAUL_C_FILE"), "receive", "0", file.name],
                                        stdout=subprocess.PIPE, text=True)
            with receiver.stdout as said:
                port = int(said.readline())
                with longhaul.connect(LOCALHOST, port, timeout=PATIENCE) as stream:
                    stream.sendall(sent)
            self.assertEqual(receiver.wait(PATIENCE), 0)
            self.assertTrue(Path(file.name).read_bytes() == sent)

    def test_rust_sends_back_what_python_sends(self):
        sent = os.urandom(5_000_000)
        server = subprocess.Popen([program("LONGHAUL_RUST_ECHO"), "0"], stdout=subprocess.PIPE, text=True)
        try:
            with server.stdout as said:
                port = int(said.readline())
            with longhaul.connect(LOCALHOST, port, timeout=PATIENCE) as stream:
                sending = Aside(lambda: (stream.sendall(sent), stream.shutdown(1)))
                self.assertTrue(receive_all(stream) == sent)
                sending.result()
        finally:
            server.kill()
            server.wait()


class Example(unittest.TestCase):
    """A program written for sockets, moved over."""

    HERE = PROJECT / "examples/file.py"
    SOCKETS = PROJECT / "examples/sockets/file.py"

    def test_three_lines_change(self):
        before, after = (path.read_text().splitlines() for path in [self.SOCKETS, self.HERE])
        changed = [line for line in difflib.ndiff(before, after) if line.startswith("+ ")]
        self.assertLessEqual(len(changed), 3, changed)
        self.assertEqual(len(before), len(after))

    def test_both_move_a_file(self):
        for example in [self.HERE, self.SOCKETS]:
            with self.subTest(example), tempfile.TemporaryDirectory() as folder:
                sent, got = Path(folder, "sent"), Path(folder, "got")
                sent.write_bytes(os.urandom(5_000_000))
                with socket.create_server((LOCALHOST, 0)) as probe:
                    port = str(probe.getsockname()[1])
                receiver = subprocess.Popen([sys.executable, example, "receive", port, got])
                self.addCleanup(receiver.kill)
                deadline = time.monotonic() + PATIENCE
                # Nobody listens at first.
                while subprocess.run([sys.executable, example, "send", LOCALHOST, port, sent],
                                     stderr=subprocess.DEVNULL, timeout=PATIENCE).returncode:
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.1)
                self.assertEqual(receiver.wait(PATIENCE), 0)
                self.assertTrue(got.read_bytes() == sent.read_bytes())


class Copies(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        here = Path(self.folder.name)
        (here / "served").mkdir()
        (here / "data").mkdir()
        (here / "data" / "big").write_bytes(os.urandom(3_000_000))
        (here / "data" / "small").write_bytes(b"small")
        self.here = here
        environment = {**os.environ, "LONGHAUL_TOKEN": "a token of some length"}
        self.daemon = subprocess.Popen(
            [program("LONGHAUL_PROGRAM"), "serve", "--root", here / "served", "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        self.addCleanup(self.daemon.stdout.close)
        self.addCleanup(self.daemon.wait)
        self.addCleanup(self.daemon.kill)
        port = re.search(r":(\d+)$", self.daemon.stdout.readline().strip()).group(1)
        self.there = f"longhaul://127.0.0.1:{port}/"

    def copy(self, src, dst, **options):
        return longhaul.copy(src, dst, token="a token of some length", **options)

    def test_there_and_back_with_progress(self):
        seen, remarks = [], []
        summary = self.copy(self.here / "data", self.there, progress=seen.append,
                            remark=lambda at, line: remarks.append(line))
        self.assertTrue(summary["ok"] and summary["hash_verified"])
        self.assertEqual((summary["files"], summary["bytes"], summary["failures"]), (2, 3_000_005, []))
        self.assertTrue(seen)
        self.assertEqual(seen[-1].bytes_total, 3_000_005)
        self.assertEqual(seen[-1].files_total, 2)
        # A busy machine is told the latest only, so that what comes first may be missed.
        order = ["connecting", "comparing", "moving", "verifying"]
        phases = [order.index(each.phase) for each in seen]
        self.assertEqual(phases, sorted(phases))
        self.assertEqual(seen[-1].phase, "verifying")
        self.assertEqual(seen[-1].bytes_done, 3_000_005)
        self.assertTrue(remarks)
        places = [self.there + "data/big", self.there + "data/small"]
        (self.here / "back").mkdir()
        self.copy(places, str(self.here / "back"), exclude=["*.o"], rate=1e9)
        self.assertTrue((self.here / "back/big").read_bytes() == (self.here / "data/big").read_bytes())

    def test_what_carries_the_data_can_be_said(self):
        summary = self.copy(self.here / "data", self.there, transport="stripe", streams=2, congestion="reno", rate=2e7)
        self.assertEqual((summary["transport"], summary["streams"]), ("stripe", 2))
        summary = self.copy(self.here / "data", self.there + "again", transport="object", streams="auto")
        self.assertEqual((summary["transport"], summary["streams"]), ("object", 0))
        for options in [{"transport": "tcp"}, {"streams": 65}, {"transport": "ssh"}]:
            with self.assertRaises(ValueError, msg=options):
                self.copy(self.here / "data", self.there, **options)

    def test_what_is_copied_can_be_had_on_the_disk(self):
        self.assertFalse(self.copy(self.here / "data", self.there)["durable"])
        self.assertTrue(self.copy(self.here / "data", self.there, fsync=True)["durable"])

    def test_what_files_are_can_be_kept(self):
        small, served = self.here / "data/small", self.here / "served"
        small.with_name("again").hardlink_to(small)
        try:
            os.setxattr(small, "user.note", b"kept")
        except OSError:
            self.skipTest("files here have no extended attributes")
        self.copy(self.here / "data", self.there, hard_links=True)
        self.assertTrue((served / "data/again").samefile(served / "data/small"))
        self.assertEqual(os.listxattr(served / "data/small"), [])
        self.copy(self.here / "data", self.there + "other/", archive=True, hard_links=False, owner=False, group=False)
        self.assertFalse((served / "other/data/again").samefile(served / "other/data/small"))
        self.assertEqual(os.getxattr(served / "other/data/small", "user.note"), b"kept")

    def test_what_networks_are_told_and_where_it_begins_can_be_said(self):
        summary = self.copy(self.here / "data", self.there, dscp="cs1", scitag="2.16", bind="127.0.0.1", paths="one")
        self.assertTrue(summary["ok"])
        for options in [{"dscp": "loud"}, {"scitag": "x"}, {"paths": "all"}, {"firefly": "no such host"}]:
            with self.assertRaises(ValueError, msg=options):
                self.copy(self.here / "data", self.there, **options)

    def test_a_copy_is_steered_while_it_runs(self):
        live = longhaul.LiveControl(rate=1e6)
        self.assertEqual((live.rate, live.paused), (1e6, False))
        with self.assertRaises(ValueError):
            live.rate = 0.0
        limits = []

        def steer(now):
            limits.append(now.limited_by)
            if now.phase != "moving":
                return
            if not live.paused and "paused" not in limits:
                live.pause()
            elif limits[-1] == "paused":
                live.rate = None
                live.resume()

        self.assertTrue(self.copy(self.here / "data", self.there, live=live, progress=steer)["ok"])
        self.assertIn("paused", limits)
        self.assertEqual((live.rate, live.paused), (None, False))

    def test_a_callback_that_raises_ends_the_copy(self):
        def complain(_progress):
            raise KeyError("enough")

        with self.assertRaisesRegex(KeyError, "enough"):
            self.copy(self.here / "data", self.there, progress=complain, rate=1e6)

    def test_failures_are_errors(self):
        with self.assertRaises(longhaul.CopyError) as missing:
            self.copy(self.here / "nothing", self.there)
        self.assertIsInstance(missing.exception, OSError)
        self.assertIsNone(missing.exception.summary, "it broke off")
        self.assertEqual(missing.exception.cause, "not_found")
        (self.here / "data" / "odd").symlink_to("target")
        (self.here / "served" / "data" / "odd" / "full").mkdir(parents=True)
        with self.assertRaises(longhaul.CopyError) as partly:
            self.copy(self.here / "data", self.there)
        self.assertEqual([path for path, _ in partly.exception.summary["failures"]], ["data/odd"])
        self.assertEqual(partly.exception.summary["bytes"], 3_000_005)
        with self.assertRaisesRegex(longhaul.CopyError, "token") as refused:
            longhaul.copy(self.here / "data", self.there, token="another")
        self.assertEqual(refused.exception.cause, "wrong_token")
        for options in [{"control": "no such thing"}, {"rate": 0.0}, {"ack_every": 0}]:
            with self.assertRaises(ValueError, msg=options):
                self.copy(self.here / "data", self.there, **options)
        with self.assertRaises(ValueError):
            longhaul.copy(self.here / "data", str(self.here / "elsewhere"))
        with self.assertRaises(ValueError):
            longhaul.copy(self.here / "data", self.there)
        with self.assertRaises(TypeError):
            self.copy(self.here / "data", self.there, nonsense=1)


class Documentation(unittest.TestCase):
    def test_the_readmes_first_program_runs(self):
        text = (PROJECT / "README.md").read_text()
        snippets = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        said = io.StringIO()
        with redirect_stdout(said):
            exec(compile(snippets[0], "README.md", "exec"), {})
        self.assertEqual(said.getvalue(), "HOW FAR IT IS\nTrue\n")
        for snippet in snippets[1:]:
            compile(snippet, "README.md", "exec")

    def test_the_stubs_name_what_there_is(self):
        stubs = ast.parse((PROJECT / "python/longhaul/__init__.pyi").read_text())
        classes = {node.name: node for node in stubs.body if isinstance(node, ast.ClassDef)}
        functions = {node.name for node in stubs.body if isinstance(node, ast.FunctionDef)}
        self.assertEqual({*classes, *functions}, set(longhaul.__all__))
        for name, node in classes.items():
            stubbed = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            real = {name for name in vars(getattr(longhaul, name)) if not name.startswith("_")}
            self.assertEqual({name for name in stubbed if not name.startswith("_")}, real, name)

    def test_the_package_is_typed(self):
        folder = Path(longhaul.__file__).parent
        self.assertTrue((folder / "py.typed").exists() and (folder / "__init__.pyi").exists())


if __name__ == "__main__":
    unittest.main()
