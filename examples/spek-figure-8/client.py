#!/usr/bin/env python3
"""Reads an emulated device sequentially over NBD for 30 seconds and sends each failed read again, up to nine times.

Usage: client.py SEEKLAB TRACE DEVICE OPTION... The device is served while the client runs. The emulator writes the trace.
"""
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

LENGTH = 8192
RETRIES = 9
# With several, the device never waits for the client.
OUTSTANDING = 4
END_S = 30


def receive(connection, count):
    """Returns exactly `count` bytes."""
    parts = []
    while count > 0:
        part = connection.recv(count)
        if not part:
            sys.exit("the server closed the connection")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def connect(path):
    """Connects to the only export and returns the connection and the size of the device."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    receive(connection, 18)
    # Fixed newstyle without zeroes, then the export without a name.
    connection.sendall(struct.pack(">I", 3) + struct.pack(">8sII", b"IHAVEOPT", 1, 0))
    size, _flags = struct.unpack(">QH", receive(connection, 10))
    return connection, size


class Reads:
    """Keeps several reads outstanding, each of which is sent again when it fails."""

    def __init__(self, connection, size):
        self.connection, self.size = connection, size
        self.outstanding = {}
        self.sent = self.done = self.failed = self.offset = 0

    def send(self, offset, attempt):
        self.sent += 1
        self.outstanding[self.sent] = (offset, attempt)
        request = struct.pack(">IHHQQI", 0x25609513, 0, 0, self.sent, offset, LENGTH)
        self.connection.sendall(request)

    def send_next(self):
        self.send(self.offset, 0)
        self.offset = (self.offset + LENGTH) % self.size

    def collect(self):
        """Takes one reply, and sends the read again or the next one."""
        _magic, error, number = struct.unpack(">IIQ", receive(self.connection, 16))
        offset, attempt = self.outstanding.pop(number)
        if error == 0:
            receive(self.connection, LENGTH)
        self.failed += error != 0
        if error != 0 and attempt < RETRIES:
            self.send(offset, attempt + 1)
        else:
            self.done += 1
            self.send_next()


def main():
    seeklab, trace, *device = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="seeklab-spek-") as folder:
        path = os.path.join(folder, "nbd")
        words = [seeklab, "serve", "--json", *device, "--size", "1GiB", "--nbd", "unix:" + path, "--record", trace]
        served = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in served.stderr:
            if " is ready: " in line:
                break
        else:
            sys.exit("the device could not be served")
        begun = time.monotonic()
        connection, size = connect(path)
        reads = Reads(connection, size)
        for _ in range(OUTSTANDING):
            reads.send_next()
        while time.monotonic() - begun < END_S:
            reads.collect()
        connection.close()
        served.send_signal(signal.SIGINT)
        served.stderr.read()
        if served.wait() != 0:
            sys.exit("the emulation failed")
        print(f"{reads.done} reads, {reads.failed} of {reads.sent} attempts failed")


if __name__ == "__main__":
    main()
