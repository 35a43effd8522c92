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


def read(connection, number, offset):
    """Returns the error number of a read, 0 for success."""
    connection.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, number, offset, LENGTH))
    _magic, error, _cookie = struct.unpack(">IIQ", receive(connection, 16))
    if error == 0:
        receive(connection, LENGTH)
    return error


def main():
    seeklab, trace, *device = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="seeklab-spek-") as folder:
        path = os.path.join(folder, "nbd")
        words = [seeklab, "serve", *device, "--size", "1GiB", "--nbd", "unix:" + path, "--record", trace]
        served = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in served.stderr:
            if " is ready: " in line:
                break
        else:
            sys.exit("the device could not be served")
        begun = time.monotonic()
        connection, size = connect(path)
        number = offset = reads = failed = 0
        while time.monotonic() - begun < END_S:
            for _attempt in range(1 + RETRIES):
                number += 1
                error = read(connection, number, offset)
                if error == 0:
                    break
                failed += 1
            reads += 1
            offset = (offset + LENGTH) % size
        connection.close()
        served.send_signal(signal.SIGINT)
        served.stderr.read()
        if served.wait() != 0:
            sys.exit("the emulation failed")
        print(f"{reads} reads, {failed} of {number} attempts failed")


if __name__ == "__main__":
    main()
