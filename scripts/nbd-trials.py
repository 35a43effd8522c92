#!/usr/bin/env python3
"""Trials of `seeklab serve` over NBD: hostile clients beside a well-behaved one whose data are checked.

    scripts/nbd-trials.py [--seed 1] [--trials 200] [--jobs 16] [--seeklab target/debug/seeklab]

Each trial starts a server of its own, draws one kind of hostile clients from the seed, and expects:
  silent        connections that say nothing take every place: the good client is served within 8 s
  negotiation   negotiations that never end: the server closes them after 10 s
  half          requests of which only some bytes arrive: the server closes them after 30 s
  debtors       clients that read no replies: the server's memory stays bounded, and what they read later is right
  dying         clients that die anywhere: the good client notices nothing
  slow          a client that reads a few bytes at a time: all of them are right
  conformance   valid and invalid requests at random: replies, errors and data are those of the protocol
Prints the counts of each kind; the exit code is 1 if a trial failed.
"""

import argparse
import collections
import concurrent.futures
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

SIZE = 8 << 20
READ, WRITE, DISCONNECT, FLUSH, TRIM, WRITE_ZEROES = 0, 1, 2, 3, 4, 6
EINVAL, ENOSPC = 22, 28
REQUEST, SIMPLE = 0x25609513, 0x67446698
NEGOTIATION = struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 7, 6) + bytes(6)


class Failed(Exception):
    """A trial did not go as expected."""


def expect(condition, message):
    if not condition:
        raise Failed(message)


class Server:
    """A `seeklab serve` of its own."""

    def __init__(self, seeklab, connections):
        self.folder = tempfile.TemporaryDirectory(prefix="seeklab-nbd-trials-")
        self.path = os.path.join(self.folder.name, "disk.sock")
        self.log = open(os.path.join(self.folder.name, "log"), "w+")
        command = [seeklab, "serve", "immediate", "--nbd", f"unix:{self.path}", "--size", str(SIZE >> 20) + "MiB"]
        command += ["--connections", str(connections), "--pacing", "frugal", "--uncalibrated"]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 60
        while not os.path.exists(self.path):
            expect(self.process.poll() is None, f"the server did not start: {self.text()}")
            expect(time.monotonic() < deadline, "the server did not start within 60 s")
            time.sleep(0.02)

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(60)
        deadline = time.monotonic() + 10
        while True:
            try:
                client.connect(self.path)
                return client
            except (ConnectionRefusedError, BlockingIOError):
                # Between bind and listen, or too many wait.
                expect(time.monotonic() < deadline, "no connection within 10 s")
                time.sleep(0.02)

    def memory_mib(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            line = next(line for line in status if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024

    def end(self):
        """Ends it in order; a server that died before fails the trial."""
        alive = self.process.poll() is None
        if alive:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failed("the server did not end within 30 s of SIGTERM") from None
        expect(alive and code == 0, f"the server ended with {code}: {self.text()[-500:]}")


def exactly(client, count):
    parts, left = [], count
    while left:
        part = client.recv(min(left, 1 << 20))
        if not part:
            raise Failed(f"the server closed the connection, {left} of {count} bytes missing")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def request(command, cookie, offset, length, payload=b"", flags=0):
    return struct.pack(">IHHQQI", REQUEST, flags, command, cookie, offset, length) + payload


def negotiate(client):
    client.sendall(NEGOTIATION)
    expect(exactly(client, 18) == b"NBDMAGICIHAVEOPT\0\3", "the greeting is not that of the protocol")
    while True:
        magic, option, kind, length = struct.unpack(">QIII", exactly(client, 20))
        exactly(client, length)
        expect(magic == 0x3E889045565A9 and option == 7 and kind < 1 << 31, f"option reply {kind:#x}")
        if kind == 1:
            return client


class Good:
    """A well-behaved client, which knows what the device must hold in its part of it."""

    def __init__(self, server, start=0, end=SIZE // 2):
        self.client = negotiate(server.connect())
        self.start, self.held, self.cookie = start, bytearray(end - start), 0

    def call(self, command, offset, length, payload=b"", flags=0):
        self.cookie += 1
        self.client.sendall(request(command, self.cookie, self.start + offset, length, payload, flags))
        magic, error, cookie = struct.unpack(">IIQ", exactly(self.client, 16))
        expect(magic == SIMPLE and cookie == self.cookie, f"reply {magic:#x} {cookie} to {self.cookie}")
        return error

    def use(self, rng, count):
        for _ in range(count):
            block = rng.randrange(len(self.held) // 512 - 128)
            offset, length = block * 512, rng.randint(1, 128) * 512
            kind = rng.choice([READ, READ, WRITE, WRITE, FLUSH, TRIM, WRITE_ZEROES])
            if kind == READ:
                error = self.call(READ, offset, length)
                expect(error == 0, f"read: error {error}")
                data = exactly(self.client, length)
                expect(data == self.held[offset : offset + length], f"wrong data at {offset}, {length} bytes")
            elif kind == WRITE:
                data = rng.randbytes(length)
                expect(self.call(WRITE, offset, length, data, rng.choice([0, 1])) == 0, "write failed")
                self.held[offset : offset + length] = data
            elif kind == FLUSH:
                self.cookie += 1
                self.client.sendall(request(FLUSH, self.cookie, 0, 0))
                expect(exactly(self.client, 16) == struct.pack(">IIQ", SIMPLE, 0, self.cookie), "flush failed")
            else:
                expect(self.call(kind, offset, length) == 0, f"command {kind} failed")
                # Trimmed blocks read as zeroes here.
                self.held[offset : offset + length] = bytes(length)


def is_open(client):
    """Takes what has come; whether the connection is still there."""
    while select.select([client], [], [], 0)[0]:
        try:
            if not client.recv(1 << 20):
                return False
        except ConnectionResetError:
            return False
    return True


def closes_between(clients, since, least, most):
    """Every client is closed by the server between `least` and `most` seconds after `since`."""
    waiting = list(clients)
    while waiting:
        waiting = [client for client in waiting if is_open(client)]
        passed = time.monotonic() - since
        expect(len(waiting) == len(clients) or passed >= least, f"closed after {passed:.1f} s, before {least} s")
        expect(not waiting or passed <= most, f"{len(waiting)} connections open after {passed:.1f} s")
        clients = waiting or clients
        time.sleep(0.05)


def silent(server, rng, connections):
    crowd = [server.connect() for _ in range(connections)]
    for client in crowd:
        client.sendall(NEGOTIATION[: rng.choice([0, 0, 1, 4, 12, 20])])
    began = time.monotonic()
    good = Good(server)
    good.use(rng, 20)
    passed = time.monotonic() - began
    expect(passed < 8, f"the good client was served after {passed:.1f} s")


def negotiation(server, rng, connections):
    good = Good(server)
    began = time.monotonic()
    crowd = [server.connect() for _ in range(connections - 1)]
    for client in crowd:
        client.sendall(NEGOTIATION[: rng.randrange(len(NEGOTIATION))])
    closes_between(crowd, began, 9.5, 20)
    good.use(rng, 50)


def half(server, rng, connections):
    good = Good(server)
    crowd = [negotiate(server.connect()) for _ in range(connections - 1)]
    began = time.monotonic()
    for client in crowd:
        whole = request(WRITE, 1, SIZE // 2, 65536, bytes(65536))
        client.sendall(whole[: rng.choice([1, 27, 28, 29, rng.randrange(1, len(whole))])])
    closes_between(crowd, began, 29.5, 50)
    good.use(rng, 50)


def debtors(server, rng, connections):
    good = Good(server)
    crowd = [negotiate(server.connect()) for _ in range(connections - 1)]
    length = rng.choice([4096, 65536, 1 << 20])
    asked = collections.Counter()
    # A debtor that takes nothing for 30 s may have to go.
    until = time.monotonic() + 15
    for _ in range(rng.randint(20, 400)):
        if time.monotonic() > until:
            break
        for index, client in enumerate(crowd):
            # Until the server does not read it any more.
            if select.select([], [client], [], 0)[1]:
                client.sendall(request(READ, asked[index], SIZE // 2, length))
                asked[index] += 1
        good.use(rng, 1)
    expect(server.memory_mib() < 450, f"the server took {server.memory_mib():.0f} MiB")
    lucky = rng.randrange(len(crowd))
    for cookie in range(asked[lucky]):
        reply = exactly(crowd[lucky], 16 + length)
        expect(reply == struct.pack(">IIQ", SIMPLE, 0, cookie) + bytes(length), f"reply {cookie} is wrong")
    good.use(rng, 20)


def dying(server, rng, connections):
    good = Good(server)
    for _ in range(40):
        client = server.connect()
        stage = rng.randrange(4)
        if stage == 0:
            client.sendall(NEGOTIATION[: rng.randrange(len(NEGOTIATION))])
        elif stage == 1:
            client.sendall(rng.randbytes(rng.randrange(1, 200)))
        else:
            negotiate(client)
            for cookie in range(rng.randint(1, 50)):
                client.sendall(request(READ, cookie, SIZE // 2, 65536))
            if stage == 3:
                client.sendall(request(WRITE, 99, SIZE // 2, 65536, bytes(rng.randrange(65536))))
        client.close()
        good.use(rng, 2)


def slow(server, rng, connections):
    good = Good(server)
    client = negotiate(server.connect())
    data = rng.randbytes(1 << 18)
    client.sendall(request(WRITE, 0, SIZE // 2, len(data), data))
    expect(exactly(client, 16) == struct.pack(">IIQ", SIMPLE, 0, 0), "write failed")
    count = 16
    for cookie in range(count):
        client.sendall(request(READ, cookie, SIZE // 2, len(data)))
    for cookie in range(count):
        expect(exactly(client, 16) == struct.pack(">IIQ", SIMPLE, 0, cookie), f"reply {cookie} is wrong")
        at = 0
        while at < len(data):
            part = client.recv(min(rng.randint(1, 30_000), len(data) - at))
            expect(part == data[at : at + len(part)] and part, f"wrong data in reply {cookie}")
            at += len(part)
            if rng.random() < 0.1:
                good.use(rng, 1)


def conformance(server, rng, connections):
    good = Good(server)
    other = Good(server, SIZE // 2, SIZE)
    for _ in range(60):
        good.use(rng, 3)
        other.use(rng, 2)
        command = rng.choice([READ, WRITE, TRIM, WRITE_ZEROES])
        payload = bytes(512) if command == WRITE else b""
        beyond = ENOSPC if command in (WRITE, WRITE_ZEROES) else EINVAL
        for offset, length, flags, error in [
            (SIZE, 512, 0, beyond),
            ((1 << 64) - 512, 512, 0, beyond),
            (1, 512, 0, EINVAL),
            (0, 512, 1 << 9, EINVAL),
        ]:
            got = good.call(command, offset - good.start, length, payload, flags)
            expect(got == error, f"command {command} at {offset} with flags {flags:#x}: error {got}, not {error}")
        unknown = rng.choice([5, 7, 9, 4711])
        expect(good.call(unknown, 0, 512) == EINVAL, f"command {unknown} is not refused")
        expect(good.call(READ, 0, 0) == EINVAL, "a read of nothing is not refused")
    good.client.sendall(request(DISCONNECT, 0, 0, 0))
    expect(good.client.recv(1) == b"", "a goodbye is answered")


KINDS = [silent, silent, negotiation, half, debtors, debtors, dying, slow, conformance, conformance]


def trial(number, seed, seeklab):
    rng = random.Random(f"{seed}/{number}")
    kind = KINDS[number % len(KINDS)]
    connections = rng.choice([2, 3, 8, 64])
    server = None
    try:
        server = Server(seeklab, connections)
        kind(server, rng, connections)
        server.end()
        return kind.__name__, None
    except (Failed, OSError) as error:
        return kind.__name__, f"{type(error).__name__}: {error} ({connections} connections)"
    finally:
        if server is not None:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()
            server.log.close()
            server.folder.cleanup()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--seeklab", default="target/debug/seeklab")
    arguments = parser.parse_args()
    passed, failed = collections.Counter(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        trials = {
            pool.submit(trial, number, arguments.seed, arguments.seeklab): number
            for number in range(arguments.trials)
        }
        for done in concurrent.futures.as_completed(trials):
            kind, error = done.result()
            (failed if error else passed)[kind] += 1
            if error:
                print(f"trial {trials[done]} ({kind}): {error}", flush=True)
    for kind in dict.fromkeys(kind.__name__ for kind in KINDS):
        print(f"{kind:12} {passed[kind]:4} passed {failed[kind]:4} failed")
    print(f"{'all':12} {passed.total():4} passed {failed.total():4} failed, seed {arguments.seed}")
    return 1 if failed.total() else 0


if __name__ == "__main__":
    sys.exit(main())
