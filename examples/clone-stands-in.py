#!/usr/bin/env python3
"""Does the clone stand in for the original? A real disk is captured under applications, cloned, and run against its clone.

    examples/clone-stands-in.py [--model NAME[,NAME...]] [--repeat N] [--disk FOLDER] [--out FOLDER] [--seconds N] [--apart] [--quick]

1. A file on a real disk (`--disk`, a folder; default: that of --out), written in full and opened past the page
   cache, becomes a block device by `seeklab record --block`; a clone does by `seeklab serve --block`. So both are behind
   the same frontend and differ in the device alone. (`--original losetup`: the kernel's own loop device instead.)
2. `seeklab capture --no-queue-times` on the original's block device, while PostMark and a build run on it, twice; `seeklab fit
   --model ...` (the one that predicts best is the clone). Times count from the issue to the driver: what a request waits for in the host
   before (ext4's flush ahead of a journal's commit), it waits for in front of the clone again.
3. These two, and a third that the clone was not fitted to (an SQLite database, inserts and updates, each made durable), on
   the original, on the clone and on `immediate`, in turns: run times, mean, standard deviation and 95 % interval;
   the clone's and immediate's difference from the original. It counts where immediate is faster by 30 % or more. Beside it
   what the captured runs took: a disk that has changed since then is not what was cloned.

The build is that of GNU hello as its INSTALL says: unpack, configure, make (a job for each processor), install, each on a
cold mount of ext4 with `sync`, and the compilers' temporary files on the same disk: whoever wants to know what a disk is
to a build leaves nothing of it in memory. PostMark is mounted `sync` too; the database asks for durability by itself.

The host is the same for all three: `--pacing balanced` lets its processors sleep when they are idle, as they do in front of
a real disk (`exact` keeps them awake, and programs go on sooner after each request). The clone's times in the host are kept to
the model's by the host's own stamps (`--follow-host`).

Every run has a file system of its own, the same to the byte, and a cold mount. Leaves results.json (every run time),
trace.parquet, clone.toml, fit.json in --out (clone-stands-in-out). Results are kept as they come: what was broken off goes
on where it was, and `--seconds N` begins no run after so many seconds. --fresh forgets them.
--apart: every run is captured too, and taken apart: how long the device was busy, and how long the host thought. That costs
a percent or two of the run times, so it is kept apart from results without.
--quick: two repetitions of small work, for a test. Needs root, FUSE, loop devices, mkfs.ext4, postmark, make, cc, apt for
the source of GNU hello (not with --quick). Everything happens in a mount namespace of its own.
Settings: SEEKLAB (the program).
"""

import argparse
import contextlib
import csv
import json
import math
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEVICES = ("original", "clone", "immediate")
KNOWN = ("postmark", "build")
NEW = ("sqlite",)
CAPTURED_RUNS = 2
# Student's t, two-sided 95 %, by degrees of freedom; beyond, the normal distribution's.
T_95 = [0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131]
UUID = "5eec1ab0-0000-4000-8000-000000000001"

SQLITE = """
import random, sqlite3, sys
turns, draws = int(sys.argv[1]), random.Random(7)
database = sqlite3.connect("data.db", isolation_level=None)
database.execute("pragma synchronous=full")
database.execute("create table t (id integer primary key, name text, value blob)")
database.execute("create index by_name on t (name)")
for turn in range(turns):
    database.execute("begin")
    for _ in range(4):
        database.execute("insert into t (name, value) values (?, ?)", (f"n{draws.random()}", draws.randbytes(300)))
    database.execute("update t set value = ? where id = ?", (draws.randbytes(300), draws.randint(1, 4 * turn + 4)))
    database.execute("commit")
assert database.execute("select count(*) from t").fetchone()[0] == 4 * turns
"""


def fail(message):
    sys.exit(f"error: {message}")


class Interruption:
    """The first Ctrl-C, SIGTERM or SIGHUP ends this program in order. It waits while a thing begins that has to be ended, and while
    it is ended."""
    KINDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    held, number = False, None

    @classmethod
    def arrives(cls, number, _):
        for kind in cls.KINDS:
            signal.signal(kind, signal.SIG_IGN)
        cls.number = number
        if not cls.held:
            sys.exit(128 + number)

    @classmethod
    @contextlib.contextmanager
    def waits(cls):
        cls.held = True
        try:
            yield
        finally:
            cls.held = False
        if cls.number is not None:
            sys.exit(128 + cls.number)


def run(*command, **options):
    """Runs a command to its end; its failure ends this program, with the output of the command."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, start_new_session=True, **options)
    if done.returncode != 0:
        fail(f"`{' '.join(map(str, command))}` ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def stopped(child, kind=signal.SIGTERM, patience=30):
    """Ends a child in order, or not."""
    with Interruption.waits():
        if child.poll() is None:
            child.send_signal(kind)
            try:
                child.wait(patience)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def processors():
    """Seconds of all processors so far: busy, waiting for I/O, and taken by the host of this machine."""
    ticks = [int(text) for text in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    second = os.sysconf("SC_CLK_TCK")
    return {"busy_s": (sum(ticks[:3]) + sum(ticks[5:7])) / second, "io_wait_s": ticks[4] / second, "stolen_s": ticks[7] / second}


def taken_apart(trace):
    """Seconds in which requests were with the device, and in which none were and the host came back within 5 ms; the mean
    response time of each operation."""
    busy = think = until = 0
    times = {}
    with open(trace, newline="") as rows:
        for row in csv.DictReader(line for line in rows if not line.startswith("#")):
            arrival, completion = int(row["arrival_ns"]), int(row["completion_ns"] or 0)
            if not completion:
                continue
            gap = arrival - until
            think += gap if until and 0 < gap < 5_000_000 else 0
            busy += max(0, completion - max(arrival, until))
            until = max(until, completion)
            times.setdefault(row["op"], []).append(completion - arrival)
    means = {op: {"requests": len(of), "response_mean_ms": statistics.mean(of) / 1e6} for op, of in sorted(times.items())}
    return {"busy_s": busy / 1e9, "think_s": think / 1e9, "operations": means}


class Experiment:
    def __init__(self, options, work):
        self.options, self.work, self.out = options, work, options.out
        self.disk = options.disk / f"clone-stands-in-{os.getpid()}.img"
        self.results_path = self.out / "results.json"
        self.settings = {"model": options.model, "repeat": options.repeat, "size_mib": options.size, "quick": options.quick,
                         "original": options.original, "pacing": options.pacing, "apart": options.apart,
                         "disk": str(options.disk.resolve())}
        self.results = {"settings": self.settings, "runs": []}
        self.attributes = None

    # Devices

    @contextlib.contextmanager
    def served(self, *command):
        """A block device that a server of seeklab makes; its document comes into the dictionary afterwards."""
        document, out = {}, self.work / "server.json"
        server = None
        try:
            with Interruption.waits(), open(out, "w") as stdout, open(self.work / "server.err", "w") as stderr:
                # It has no terminal, so that Ctrl-C reaches it after the unmount; and it goes if this process is killed.
                server = subprocess.Popen(["setpriv", "--pdeathsig", "INT", self.options.seeklab, *map(str, command), "--json"],
                                          stdout=stdout, stderr=stderr, start_new_session=True)
            while " is ready: " not in (printed := (self.work / "server.err").read_text()):
                if server.poll() is not None:
                    fail(f"`seeklab {' '.join(map(str, command))}` did not become ready: {printed.strip()}")
                time.sleep(0.02)
            yield printed.split(" is ready: ")[1].splitlines()[0].strip(), document
        finally:
            if server:
                stopped(server)
        with contextlib.suppress(ValueError):
            document.update(json.loads(out.read_text()))

    @contextlib.contextmanager
    def original(self):
        if self.options.original == "losetup":
            device = None
            try:
                with Interruption.waits():
                    device = run("losetup", "--find", "--show", "--direct-io=on", self.disk).strip()
                yield device, {}
            finally:
                with Interruption.waits():
                    if device:
                        run("losetup", "--detach", device)
        else:
            trace = self.work / "passed.parquet"
            with self.served("record", "--backing", self.disk, "--block", "-o", trace) as served:
                yield served
            trace.unlink(missing_ok=True)

    def device(self, name):
        if name == "original":
            return self.original()
        # A device that takes no time has no times to be kept to.
        what = [self.out / "clone.toml", "--follow-host"] if name == "clone" else ["immediate"]
        return self.served("serve", *what, "--block", "--size", f"{self.options.size}MiB", "--pacing", self.options.pacing)

    @contextlib.contextmanager
    def captured(self, device, trace):
        """What reaches a block device meanwhile goes into a trace; its summary comes into the dictionary afterwards."""
        summary = {}
        command = ["setpriv", "--pdeathsig", "INT", self.options.seeklab, "capture", device, "--no-queue-times", "-o", trace, "--json"]
        capture = None
        try:
            with Interruption.waits():
                capture = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                           text=True, start_new_session=True)
            for _ in range(200):
                if list(trace.parent.glob(f"*{trace.name}*")) or capture.poll() is not None:
                    break
                time.sleep(0.05)
            yield summary
            capture.send_signal(signal.SIGTERM)
            out, errors = capture.communicate()
        except BaseException:
            if capture:
                stopped(capture)
            raise
        if capture.returncode != 0:
            fail(f"`seeklab capture` ended with {capture.returncode}: {errors.strip()}")
        summary.update(json.loads(out))

    def alike(self, device):
        """The host's queue of every device as that of the first; returns what differs and cannot be set."""
        queue = Path("/sys/block", Path(device).name, "queue")
        wanted = {"scheduler": "none", "read_ahead_kb": "128", "rotational": "0", "nr_requests": "128"}
        for name, value in wanted.items():
            with contextlib.suppress(OSError):
                (queue / name).write_text(value)
        kept = ["logical_block_size", "physical_block_size", "write_cache", "fua", "max_sectors_kb", *wanted]
        return {name: (queue / name).read_text().strip() for name in kept if (queue / name).exists()}

    def make_disk(self):
        """The original's blocks, written, so that no file system beneath has to find room for them later."""
        with open(self.disk, "wb") as disk:
            os.posix_fallocate(disk.fileno(), 0, self.options.size << 20)
            for _ in range(self.options.size):
                disk.write(bytes(1 << 20))
            os.fsync(disk.fileno())

    def make_file_system(self, device):
        extended = f"nodiscard,lazy_itable_init=0,lazy_journal_init=0,hash_seed={UUID}"
        run("mkfs.ext4", "-q", "-F", "-b", "4096", "-U", UUID, "-E", extended, device)

    def unmount(self, place):
        for _ in range(50):
            if not place.is_mount():
                return
            if subprocess.run(["umount", place], capture_output=True).returncode != 0:
                time.sleep(0.1)
        run("umount", "--lazy", place)

    @contextlib.contextmanager
    def mounted(self, device, options):
        place = self.work / "mount"
        place.mkdir(exist_ok=True)
        try:
            with Interruption.waits():
                run("mount", "-t", "ext4", "-o", options, device, place)
            yield place
        finally:
            with Interruption.waits():
                self.unmount(place)

    # Applications: each is phases of (mount options, command), each on a cold mount

    def phases(self, application):
        if application == "postmark":
            return [("sync", ["postmark", self.work / "postmark.config"])]
        if application == "build":
            steps = ["./configure", f"make -j{os.cpu_count()}", 'make install DESTDIR="$TMPDIR"/installed']
            shell = lambda step: f'export TMPDIR="$PWD"/tmp; mkdir -p "$TMPDIR" && cd source/*/ && {step} > /dev/null 2>&1'
            unpack = f"mkdir source && tar xf {self.work / 'source.tar'} -C source"
            return [("sync", ["sh", "-c", command]) for command in (unpack, *map(shell, steps))]
        return [("defaults", [sys.executable, "-c", SQLITE, "60" if self.options.quick else "1500"])]

    def make_sources(self):
        files, turns = (60, 150) if self.options.quick else (500, 5000)
        (self.work / "postmark.config").write_text(
            f"set number {files}\nset transactions {turns}\nset seed 42\nrun\nquit\n")
        if not self.options.quick:
            archive = run(HERE / "paper/fetch-source.sh", "hello").strip()
            with tarfile.open(archive) as packed, tempfile.TemporaryDirectory(dir=self.work) as folder:
                packed.extractall(folder, filter="fully_trusted")
                run("tar", "cf", self.work / "source.tar", "-C", folder, ".")
        else:
            with tempfile.TemporaryDirectory(dir=self.work) as folder:
                tree = Path(folder, "small")
                tree.mkdir()
                for index in range(12):
                    (tree / f"f{index}.c").write_text(f"int f{index}(int x) {{ return x + {index}; }}\n" + "// filler\n" * 400)
                objects = " ".join(f"f{index}.o" for index in range(12))
                (tree / "Makefile.in").write_text(f"lib.a: {objects}\n\tar rc lib.a {objects}\n"
                                                  "install: lib.a\n\tmkdir -p $(DESTDIR)/lib && cp lib.a $(DESTDIR)/lib/\n")
                (tree / "configure").write_text("#!/bin/sh\ncp Makefile.in Makefile\n")
                (tree / "configure").chmod(0o755)
                run("tar", "cf", self.work / "source.tar", "-C", folder, "small")

    def apply(self, application, device, folder="it"):
        """Runs an application in a folder of a device's file system; seconds of its phases, what they leave unwritten included."""
        environment = {**os.environ, "FORCE_UNSAFE_CONFIGURE": "1"}
        times = []
        for options, command in self.phases(application):
            with self.mounted(device, options) as mount:
                place = mount / folder
                place.mkdir(exist_ok=True)
                begun = time.monotonic()
                child = None
                try:
                    with Interruption.waits():
                        child = subprocess.Popen([str(part) for part in command], cwd=place, env=environment, text=True,
                                                 start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                    _, errors = child.communicate()
                except BaseException:
                    if child:
                        with contextlib.suppress(ProcessLookupError):
                            os.killpg(child.pid, signal.SIGKILL)
                        child.wait()
                    raise
                run("sync", "--file-system", place)
                times.append(time.monotonic() - begun)
            if child.returncode != 0:
                fail(f"{application} ended with {child.returncode}: {errors.strip()}")
        return times

    # Steps

    def clone(self):
        """Captures the original under the known applications and fits the clone."""
        trace = self.work / "trace.parquet"
        with self.original() as (device, _):
            self.alike(device)
            self.make_file_system(device)
            with self.captured(device, trace) as summary:
                # The whole device is addressed once, so that the trace tells how large it is.
                run("dd", f"if={device}", "of=/dev/null", "bs=4096", f"skip={self.options.size * 256 - 1}", "count=1",
                    "iflag=direct")
                # More than once, for no run of a disk is like another.
                seconds = [{application: self.apply(application, device, f"{application}-{turn}") for application in KNOWN}
                           for turn in range(1 if self.options.quick else CAPTURED_RUNS)]
        self.results["capture"] = {"seconds": seconds, "summary": summary}
        fitted = run(self.options.seeklab, "fit", trace, "--model", self.options.model, "-o", self.work / "clone.toml", "--json")
        self.results["fit"] = json.loads(fitted)["fit"]
        shutil.copy(trace, self.out / "trace.parquet")
        (self.out / "fit.json").write_text(fitted)
        shutil.copy(self.work / "clone.toml", self.out / "clone.toml")
        self.save()

    def once(self, application, name, repetition):
        with self.device(name) as (device, document):
            attributes = self.alike(device)
            self.make_file_system(device)
            trace = self.work / "apart.csv"
            with self.captured(device, trace) if self.options.apart else contextlib.nullcontext():
                before = processors()
                times = self.apply(application, device)
                used = {key: after - before[key] for key, after in processors().items()}
        row = {"application": application, "device": name, "repetition": repetition, "seconds": sum(times), "phases_s": times,
               "load_average": os.getloadavg()[0], "host_queue": attributes, **used}
        if self.options.apart:
            row["apart"] = taken_apart(trace)
            trace.unlink()
        for key in ("requests", "host", "deadline_misses", "lateness_p50_us", "lateness_p99_us", "emulator_cpu_s", "trust",
                    "trust_sentence", "processors", "out_of_validated_range", "notes"):
            if key in document:
                row[key] = document[key]
        self.results["runs"].append(row)
        self.save()

    def save(self):
        temporary = self.results_path.with_suffix(".tmp")
        self.results["summary"] = self.summary()
        temporary.write_text(json.dumps(self.results, indent=1) + "\n")
        temporary.rename(self.results_path)

    def go(self):
        begun = time.monotonic()
        if not self.options.fresh and self.results_path.exists() and (self.out / "clone.toml").exists():
            before = json.loads(self.results_path.read_text())
            if before["settings"] != {**self.settings, "repeat": before["settings"]["repeat"]}:
                fail(f"{self.results_path} is of other settings: {before['settings']}\n\nhint: --fresh forgets it, --out names another folder")
            self.results = {**before, "settings": self.settings}
        self.results["host"] = {"kernel": platform.release(), "processors": os.cpu_count()}
        self.make_sources()
        self.make_disk()
        if "fit" not in self.results:
            print("capturing the original and fitting its clone", file=sys.stderr)
            self.clone()
        done = {(row["application"], row["device"], row["repetition"]) for row in self.results["runs"]}
        for repetition in range(self.options.repeat):
            for application in (*KNOWN, *NEW):
                # Who comes first goes round, so that none is always behind the same one.
                for turn in range(len(DEVICES)):
                    name = DEVICES[(turn + repetition) % len(DEVICES)]
                    if (application, name, repetition) in done:
                        continue
                    if self.options.seconds and time.monotonic() - begun > self.options.seconds:
                        print("the time is over; the same command goes on from here", file=sys.stderr)
                        return
                    print(f"{repetition + 1} of {self.options.repeat}: {application} on {name}", file=sys.stderr)
                    self.once(application, name, repetition)

    # Figures

    def summary(self):
        rows = []
        for application in (*KNOWN, *NEW):
            row = {"application": application, "captured": application in KNOWN}
            figures = {}
            for name in DEVICES:
                seconds = [of["seconds"] for of in self.results["runs"] if (of["application"], of["device"]) == (application, name)]
                if not seconds:
                    continue
                deviation = statistics.stdev(seconds) if len(seconds) > 1 else math.nan
                half = (T_95[len(seconds) - 1] if 1 < len(seconds) <= len(T_95) else 1.96) * deviation / math.sqrt(len(seconds))
                figures[name] = statistics.mean(seconds), deviation, half
                row[name] = {"runs": len(seconds), "mean_s": figures[name][0],
                             "sd_s": None if math.isnan(deviation) else deviation,
                             "half_width_95_s": None if math.isnan(half) else half}
            for name in DEVICES[1:]:
                if name in figures and "original" in figures:
                    (mean, _, half), (base, _, base_half) = figures[name], figures["original"]
                    width = 100 * mean / base * math.hypot(half / mean, base_half / base)
                    row[f"{name}_difference_pct"] = 100 * (mean / base - 1)
                    row[f"{name}_half_width_95_pct"] = None if math.isnan(width) else width
            captured = [sum(times[application]) for times in self.results.get("capture", {}).get("seconds", []) if application in times]
            if captured and "clone" in figures:
                row["captured_s"] = captured
                row["clone_beside_capture_pct"] = 100 * (figures["clone"][0] / statistics.mean(captured) - 1)
            if "immediate_difference_pct" in row:
                row["counts"] = row["immediate_difference_pct"] <= -30
            rows.append(row)
        return rows

    def page(self):
        print("| application | original s (sd, ± 95 %) | clone s | immediate s | clone / original | immediate / original | counts | "
              "while captured s | clone / captured |")
        print("|" + " --- |" * 9)
        number = lambda value, form: "–" if value is None else format(value, form)
        for row in self.summary():
            cells = [row["application"] + ("" if row["captured"] else " (not captured)")]
            for name in DEVICES:
                of = row.get(name)
                cells.append("–" if of is None else
                             f"{of['mean_s']:.3f} ({number(of['sd_s'], '.3f')}, ± {number(of['half_width_95_s'], '.3f')})")
            for name in DEVICES[1:]:
                pct = row.get(f"{name}_difference_pct")
                cells.append("–" if pct is None else f"{pct:+.1f} % ± {number(row[f'{name}_half_width_95_pct'], '.1f')}")
            cells.append({True: "yes", False: "no: immediate is too near", None: "–"}[row.get("counts")])
            cells.append(", ".join(f"{seconds:.2f}" for seconds in row.get("captured_s", [])) or "–")
            beside = row.get("clone_beside_capture_pct")
            cells.append("–" if beside is None else f"{beside:+.1f} %")
            print("| " + " | ".join(cells) + " |")
        self.page_apart()
        fit = self.results.get("fit", {})
        for of in fit.get("evaluations") or []:
            if of["model"] != fit.get("saved_model", of["model"]):
                continue
            print(f"\nclone: {of['model']}, {self.results['fit']['requests']} requests; demerit on the second half of the capture "
                  f"{number(of['demerit_all']['ea_rms_pct'], '.1f')} %, to p99 {number(of['demerit_to_p99']['ea_rms_pct'], '.1f')} % "
                  f"(random variation {number(of['resampled_demerit_to_p99']['ea_rms_pct'], '.1f')} %)")


    def page_apart(self):
        if not self.options.apart:
            return
        print("\n| application | device | runs | run time s | device busy s | host thinks s | mean ms of each operation |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for application in (*KNOWN, *NEW):
            for name in DEVICES:
                rows = [row for row in self.results["runs"] if (row["application"], row["device"]) == (application, name)]
                if not rows:
                    continue
                mean = lambda figure: statistics.mean(map(figure, rows))
                ops = sorted(set.intersection(*(set(row["apart"]["operations"]) for row in rows)))
                each = (f"{op} {mean(lambda row: row['apart']['operations'][op]['response_mean_ms']):.4f}" for op in ops)
                print(f"| {application} | {name} | {len(rows)} | {mean(lambda row: row['seconds']):.2f} | "
                      f"{mean(lambda row: row['apart']['busy_s']):.2f} | {mean(lambda row: row['apart']['think_s']):.2f} | {', '.join(each)} |")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], epilog=__doc__.split("\n\n", 2)[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="station,plain", help="model or models of `seeklab fit`; the one that predicts best is the clone")
    parser.add_argument("--repeat", type=int, help="repetitions; 10")
    parser.add_argument("--size", type=int, help="MiB of the devices; 1024")
    parser.add_argument("--disk", type=Path, help="folder on the real disk")
    parser.add_argument("--out", type=Path, default=Path("clone-stands-in-out"))
    parser.add_argument("--original", choices=("record", "losetup"), default="record", help="what the original is behind")
    parser.add_argument("--pacing", default="balanced", help="of the emulated devices")
    parser.add_argument("--seconds", type=float, help="begin no run after so many seconds")
    parser.add_argument("--apart", action="store_true", help="take every run apart by a capture")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.repeat = options.repeat or (2 if options.quick else 10)
    options.size = options.size or (128 if options.quick else 1024)
    options.disk = options.disk or options.out
    return options


def main():
    options = arguments()
    if os.geteuid() != 0:
        fail("it makes and mounts block devices, which needs root")
    for program, package in [("mkfs.ext4", "e2fsprogs"), ("postmark", "postmark"), ("make", "make"), ("cc", "gcc"),
                             ("setpriv", "util-linux"), ("unshare", "util-linux")]:
        if not shutil.which(program):
            fail(f"{program} is missing: install Debian's package {package}")
    options.seeklab = os.environ.get("SEEKLAB")
    if not options.seeklab:
        subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "seeklab"], cwd=HERE, check=True)
        target = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target"))
        options.seeklab = os.environ["SEEKLAB"] = str(target / "release/seeklab")
    if "CLONE_STANDS_IN_INSIDE" not in os.environ:
        # What is mounted goes with the last process of the namespace, however that ends.
        os.environ["CLONE_STANDS_IN_INSIDE"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
    for kind in Interruption.KINDS:
        signal.signal(kind, Interruption.arrives)
    options.out.mkdir(parents=True, exist_ok=True)
    # Not on the disk that is measured.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    work = Path(tempfile.mkdtemp(prefix="clone-stands-in-", dir=memory))
    experiment = Experiment(options, work)
    try:
        experiment.go()
    finally:
        for kind in Interruption.KINDS:
            signal.signal(kind, signal.SIG_IGN)
        experiment.disk.unlink(missing_ok=True)
        shutil.rmtree(work, ignore_errors=True)
    experiment.page()


if __name__ == "__main__":
    main()
