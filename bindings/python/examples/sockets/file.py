"""Move a file: file.py send HOST PORT FILE, file.py receive PORT FILE."""

import socket
import sys


def send(host, port, path):
    with socket.create_connection((host, int(port))) as stream, open(path, "rb") as file:
        while block := file.read(1 << 20):
            stream.sendall(block)


def receive(port, path):
    with socket.create_server(("0.0.0.0", int(port))) as listener:
        stream, _ = listener.accept()
        with stream, open(path, "wb") as file:
            while block := stream.recv(1 << 20):
                file.write(block)


if __name__ == "__main__":
    {"send": send, "receive": receive}[sys.argv[1]](*sys.argv[2:])
