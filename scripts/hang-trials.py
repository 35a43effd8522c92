#!/usr/bin/env python3
"""Send signals to `seeklab run` at random moments and count the runs that hang.

Each trial starts a run of several short phases as another user. It sends SIGINT, SIGTERM or SIGHUP, to the
process or to its process group, at a random moment, and in every third trial a second signal. Every second trial
holds each command for 20 ms between its fork and its exec, by strace: otherwise few signals meet that moment. A run
hangs if it has not ended within the patience. The script also looks for processes that outlive their run.

Needs Linux, root, /dev/fuse, loop devices and strace. Exit codes: 0 no run hung and no process was left, 1 otherwise,
2 the trials cannot be made here.

    cargo build && scripts/hang-trials.py --seed 1
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
# A command for each phase: every one is a fork and an exec that a signal can meet.
PHASES = 6
MARK = "SEEKLAB_HANG_TRIAL"
# The tracer is in a session of its own, so that no signal of a trial reaches it.
HELD = [
    "strace", "-DDD", "--follow-forks", "--output=/dev/null", "--trace=setgroups",
    "--inject=setgroups:delay_enter=20000",
]  # fmt: skip
# Processes that end by themselves after their run are not left.
LEFT_AFTER_S = 10.0


def command(binary, user):
    """Returns the command line of a run that ends by itself within about a second."""
    phases = [argument for number in range(PHASES) for argument in ("--phase", f"p{number}=true")]
    return [
        binary, "run", "immediate", "--size", "32MiB", "--fs", "ext2", "--user", user, "--setup", "true",
        *phases, "--", "true",
    ]  # fmt: skip


def start(arguments, mark, folder):
    """Starts a run in a process group of its own, with temporary files in a folder of its own."""
    environment = {**os.environ, MARK: mark, "TMPDIR": folder}
    errors = open(Path(folder) / "stderr", "wb")
    return subprocess.Popen(
        arguments, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
        start_new_session=True,
    )  # fmt: skip


def marked(mark):
    """Returns the processes that have `mark` in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            pass  # It has ended since.
    return found


def send(process, number, to_group):
    """Sends a signal to a run that has not been waited for, so its number is its own."""
    if process.poll() is None:
        (os.killpg if to_group else os.kill)(process.pid, number)


def trial(arguments, mark, plan, patience_s):
    """Makes one trial; returns its exit code, whether it hung, what it left and what it printed."""
    with tempfile.TemporaryDirectory(prefix="seeklab-hang-") as folder:
        process = start(arguments, mark, folder)
        began_s = time.monotonic()
        for moment_s, number, to_group in plan:
            time.sleep(max(0.0, began_s + moment_s - time.monotonic()))
            send(process, number, to_group)
        try:
            code, hangs = process.wait(patience_s), False
        except subprocess.TimeoutExpired:
            hangs = True
            # Everything inside dies with it.
            process.kill()
            code = process.wait()
        until_s = time.monotonic() + LEFT_AFTER_S
        while (left := marked(mark)) and time.monotonic() < until_s:
            time.sleep(0.02)
        return code, hangs, left, (Path(folder) / "stderr").read_text(errors="replace").strip()


def drawn(draw, duration_s):
    """Draws the signals of one trial: moment, number, whether the process group gets it."""
    first_s = draw.uniform(0.0, duration_s)
    moments = [first_s]
    if draw.randrange(3) == 0:
        moments.append(first_s + draw.uniform(0.0, 0.2 * duration_s))
    return [(moment_s, draw.choice(SIGNALS), draw.random() < 0.7) for moment_s in moments]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "target/debug/seeklab"), help="[default: target/debug/seeklab]")
    parser.add_argument("--seed", type=int, default=1, help="root of all random draws [default: 1]")
    parser.add_argument("--trials", type=int, default=200, help="[default: 200]")
    parser.add_argument("--patience-s", type=float, default=60.0, help="time after which a run hangs [default: 60]")
    parser.add_argument("--user", default="nobody", help="user of the commands [default: nobody]")
    options = parser.parse_args()
    arguments = command(options.binary, options.user)

    if shutil.which("strace") is None:
        print("strace is missing: install Debian's package strace", file=sys.stderr)
        return 2
    ways = [("free", arguments), ("held", [*HELD, *arguments])]
    durations_s = []
    for name, line in ways:
        began_s = time.monotonic()
        code, hangs, _, errors = trial(line, f"{os.getpid()}-{name}", [], options.patience_s)
        durations_s.append(time.monotonic() - began_s)
        if code != 0 or hangs:
            print(f"a run without signals ({name}) ends with exit code {code}:\n{errors}", file=sys.stderr)
            return 2
    print(f"runs without signals take {durations_s[0]:.2f} s, held {durations_s[1]:.2f} s; seed {options.seed}")

    draw = random.Random(options.seed)
    hung, left_count, ends = 0, 0, {}
    for number in range(options.trials):
        name, line = ways[number % 2]
        plan = drawn(draw, durations_s[number % 2])
        code, hangs, left, errors = trial(line, f"{os.getpid()}-{number}", plan, options.patience_s)
        hung += hangs
        left_count += bool(left)
        signals = f"{name}, " + ", ".join(
            f"{kind.name} at {1e3 * moment_s:.0f} ms to the {'group' if to_group else 'process'}"
            for moment_s, kind, to_group in plan
        )
        if hangs or left:
            print(f"trial {number}: {signals}: {'hangs' if hangs else f'leaves processes {left}'}")
        end = "hung" if hangs else signal.Signals(-code).name if code < 0 else f"exit code {code}"
        ends[end] = ends.get(end, 0) + 1
        if code not in (0, 1) and not (code < 0 and -code in [kind for _, kind, _ in plan]) and not hangs:
            print(f"trial {number}: {signals}: {end}: {errors}")
    for end, count in sorted(ends.items()):
        print(f"{end:12} {count:5}")
    print(f"{options.trials} trials, {hung} hung, {left_count} left processes")
    return 1 if hung or left_count else 0


if __name__ == "__main__":
    sys.exit(main())
