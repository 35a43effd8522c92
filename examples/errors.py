#!/usr/bin/env python3
"""Shows what a direct read, ext4, xfs and btrfs make of the errors of a device.

Each case serves the same image as a block device with one fault, mounts it, and uses it as a program does. The result
is the table of docs/errors.md. Needs root, FUSE, loop devices, and mkfs.ext4, mkfs.xfs and mkfs.btrfs.

    examples/errors.py                     # all file systems
    examples/errors.py ext4 --case medium  # one of them, and the cases whose name contains `medium`
    SEEKLAB=target/debug/seeklab examples/errors.py
"""
import argparse
import errno
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time

SIZE = 320 << 20
BLOCK = 4096
DATA_BLOCKS = 256
BAD_BLOCK = 100
NAMES = 400
NAME = "a-name-that-is-found-in-the-image-{:04}-" + "x" * 60
MARK = "a block that is found in the image, number {:06}"
MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-F", "-b", "4096"],
    "xfs": ["mkfs.xfs", "-q"],
    "btrfs": ["mkfs.btrfs", "-q", "-m", "dup", "-d", "single"],
}
OPTIONS = {"ext4": "errors=remount-ro", "xfs": "defaults", "btrfs": "defaults"}
# Faults of writes begin after the mount, which writes.
BEGIN_S = 4


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def make_image(name, folder):
    """Makes a file system with a file of numbered blocks and a directory of long names."""
    image = os.path.join(folder, f"{name}.img")
    with open(image, "wb") as file:
        file.truncate(SIZE)
    run(*MAKE[name], image)
    place = os.path.join(folder, "make")
    os.makedirs(place, exist_ok=True)
    run("mount", "-o", "loop", image, place)
    with open(os.path.join(place, "data"), "wb") as file:
        for number in range(DATA_BLOCKS):
            file.write(MARK.format(number).encode().ljust(BLOCK, b"."))
    os.mkdir(os.path.join(place, "names"))
    for number in range(NAMES):
        open(os.path.join(place, "names", NAME.format(number)), "w").close()
    run("umount", place)
    return image


def places(image, text, begins=(b"",)):
    """Returns the offsets of the 4 KiB blocks that hold a text and begin with one of some bytes."""
    found = set()
    with open(image, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
        at = content.find(text)
        while at >= 0:
            start = at // BLOCK * BLOCK
            if any(content[start : start + len(begin)] == begin for begin in begins):
                found.add(start)
            at = content.find(text, at + 1)
    return sorted(found)


class Served:
    """The image as a block device with faults, and mounted."""

    def __init__(self, name, image, folder, faults):
        seeklab = os.environ.get("SEEKLAB", "seeklab")
        words = [seeklab, "serve", "--json", "immediate", "--size", str(SIZE >> 20) + "MiB", "--image", image, "--block"]
        for fault in faults:
            words += ["--fault", fault]
        self.place = os.path.join(folder, "place")
        os.makedirs(self.place, exist_ok=True)
        self.child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.begun = time.monotonic()
        for line in self.child.stderr:
            if " is ready: " in line:
                self.device = line.split(" is ready: ")[1].strip()
                break
        else:
            sys.exit(f"the device could not be served: {' '.join(words)}")
        self.mounted = True
        try:
            run("mount", "-t", name, "-o", OPTIONS[name], self.device, self.place)
        except subprocess.CalledProcessError:
            self.mounted = False

    def path(self, *parts):
        return os.path.join(self.place, *parts)

    def await_fault(self):
        """Waits until the model's time has passed the start of the faults."""
        time.sleep(max(0, self.begun + BEGIN_S + 0.5 - time.monotonic()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # A detached mount goes when nothing uses it any more, errors or not.
        subprocess.run(["umount", "-l", self.place], stderr=subprocess.DEVNULL)
        self.child.send_signal(signal.SIGINT)
        try:
            self.child.wait(20)
        except subprocess.TimeoutExpired:
            self.child.kill()
        self.child.stderr.close()
        self.child.wait()


def outcome(action):
    """Returns `ok`, or the name of the error number."""
    try:
        action()
        return "ok"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))


def read_direct(path, offset):
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, BLOCK) as buffer:
            os.preadv(file, [buffer], offset)
    finally:
        os.close(file)


def write_direct(path, offset):
    file = os.open(path, os.O_WRONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, BLOCK) as buffer:
            os.pwritev(file, [buffer], offset)
    finally:
        os.close(file)


def read_cached(path):
    with open(path, "rb", buffering=0) as file:
        while file.read(64 << 10):
            pass


def write_durably(path):
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.pwrite(file, b"x" * BLOCK, 0)
        os.fsync(file)
    finally:
        os.close(file)


def list_names(served):
    return len([os.stat(served.path("names", name)) for name in os.listdir(served.path("names"))])


def state(served):
    """Returns what the mount allows once an attempt to write has had its consequences."""
    outcome(lambda: write_durably(served.path("afterwards")))
    # Metadata too: the journal fails now, or not at all.
    subprocess.run(["sync", "-f", served.place], stderr=subprocess.DEVNULL)
    result = outcome(lambda: os.close(os.open(served.path("last"), os.O_WRONLY | os.O_CREAT, 0o600)))
    return {"ok": "stays writable", "EROFS": "then read-only"}.get(result, f"then shut down ({result})")


def use_data(served, offset):
    return [
        ("device", outcome(lambda: read_direct(served.device, offset))),
        ("direct read", outcome(lambda: read_direct(served.path("data"), BAD_BLOCK * BLOCK))),
        ("read", outcome(lambda: read_cached(served.path("data")))),
        ("", state(served)),
    ]


def use_names(served, offset):
    return [
        ("device", outcome(lambda: read_direct(served.device, offset))),
        ("listing", outcome(lambda: list_names(served))),
        ("", state(served)),
    ]


def use_writes(served, offset):
    served.await_fault()
    return [
        ("device", outcome(lambda: write_direct(served.device, offset))),
        ("direct write", outcome(lambda: write_direct(served.path("data"), 0))),
        ("fsync", outcome(lambda: write_durably(served.path("data")))),
        ("", state(served)),
    ]


def use_gone(served, offset):
    served.await_fault()
    return [
        ("device", outcome(lambda: read_direct(served.device, offset))),
        ("direct read", outcome(lambda: read_direct(served.path("data"), 0))),
        ("fsync", outcome(lambda: write_durably(served.path("data")))),
        ("", state(served)),
    ]


def cases(data, names):
    """Returns name, faults, use, and a place for the direct access of the device."""
    begin = f"at={BEGIN_S}s"
    bad = f"blocks={data}B..+{BLOCK}B"
    sticky = "medium_error,op=read,lasting=sticky"
    # The copies of a block lie in two regions of the device, in the same order.
    one_copy = names[: len(names) // 2]
    return [
        ("medium error, file data", [f"{sticky},{bad}"], use_data, data),
        ("timeout, file data", [f"timeout,timeout=1s,op=read,{bad}"], use_data, data),
        ("medium error, metadata", [f"{sticky},blocks={at}B..+{BLOCK}B" for at in names], use_names, names[0]),
        ("medium error, half of the metadata", [f"{sticky},blocks={at}B..+{BLOCK}B" for at in one_copy], use_names, names[0]),
        ("medium error of all writes", [f"medium_error,op=write,{begin}"], use_writes, data),
        ("no space for writes", [f"no_space,op=write,{begin}"], use_writes, data),
        ("write-protected", [f"write_protected,op=write,{begin}"], use_writes, data),
        ("gone", [f"gone,{begin}"], use_gone, data),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file_systems", nargs="*", default=list(MAKE), metavar="FS")
    parser.add_argument("--case", default="", help="only cases whose name contains this text")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("this example mounts block devices: run it as root")
    if "SEEKLAB_ERRORS_STAGE" not in os.environ:
        # Mounts of its own, which end with the last process.
        os.environ["SEEKLAB_ERRORS_STAGE"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
    table = {}
    with tempfile.TemporaryDirectory(prefix="seeklab-errors-") as folder:
        for name in arguments.file_systems:
            image = make_image(name, folder)
            data = places(image, MARK.format(BAD_BLOCK).encode())[0]
            # Of xfs, the blocks of the directory alone: its log holds the names too, and is read at every mount.
            begins = (b"XDB3", b"XDD3") if name == "xfs" else (b"",)
            names = places(image, NAME.format(7).encode()[:36], begins)
            for case, faults, use, place in cases(data, names):
                if arguments.case not in case or (case.endswith("half of the metadata") and name != "btrfs"):
                    continue
                with Served(name, image, folder, faults) as served:
                    used = use(served, place) if served.mounted else [("", "cannot be mounted")]
                row = table.setdefault(case, {})
                row.setdefault("device", dict(used).get("device", "–"))
                row[name] = ", ".join(f"{what} {result}".strip() for what, result in used if what != "device")
    columns = ["device", *arguments.file_systems]
    print("| error | direct access of the device | " + " | ".join(arguments.file_systems) + " |")
    print("| --- |" + " --- |" * len(columns))
    for case, row in table.items():
        print(f"| {case} | " + " | ".join(row.get(column, "–") for column in columns) + " |")


if __name__ == "__main__":
    main()
