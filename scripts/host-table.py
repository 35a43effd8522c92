#!/usr/bin/env python3
"""Predictions of the host model against runs of the programs: the tables of docs/models/host.md.

    scripts/host-table.py record  --results FOLDER [--others] [--workload NAME]... [--configuration NAME]... [--repetitions N]
    scripts/host-table.py predict --results FOLDER
    scripts/host-table.py measure --results FOLDER [--others] [--workload NAME]... [--configuration NAME]... [--repetitions N] [--pairs N]
                                  [--seed N]
    scripts/host-table.py table   --results FOLDER

record       runs each workload with `seeklab run --system` in each of its configurations and keeps the traces.
predict      simulates each configuration from the traces of each, its own and the others, as a whole host and as replays of the
             requests, and writes predictions.json.
measure      runs each workload without a trace, in an order drawn from the seed for each repetition. In the first N repetitions
             (--pairs) a run with a trace stands beside each, before or after it. Refuses if a prediction is missing: it is on disk
             before the first run without a trace of what it predicts.
table        prints the tables as Markdown: changes of elapsed times, elapsed times, the rows of each own configuration, the
             character of the workloads, the cost of recording, and how far predictions of other programs are from their recordings.
--others     other programs, which no table of changes has, in place of the workloads of the paper and ours.

record and measure need root, FUSE, loop devices and tracefs, and PostMark, gcc, make, xz and sqlite3; with --others fio, git and
python3. A second call goes on where the first one ended.

The host is small: 8 MiB of the device may be dirty, and writeback is not throttled. The command has one processor: ext4 gives new
files places by processor, so a command that moves between two of them writes its files alternately to two places, and a copy
takes up to 1.8 times as long. How often it moves depends on what else the machine does. The host's scheduler is `none`, so
that the emulated disk orders the requests. `seeklab calibrate` comes first: without it, every request takes a tenth of a
millisecond longer than on the emulated disk. Exact pacing keeps the processors awake: one that halted between two requests computes
up to twice as long, and by how much depends on the disk. The file system is ext2, which has no journal, and ext4 for the database. The
configuration `clone` is a model that `seeklab fit` makes of the validation trace of a Seagate Barracuda in ../shared.
Settings: SEEKLAB (the program).
"""

import argparse
import collections
import csv
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEEKLAB = os.environ.get("SEEKLAB", str(ROOT / "target/release/seeklab"))
TRACE_OF_THE_CLONE = ROOT.parent / "shared/traces/disksim-validate/barracuda.trace.zst"

TREE = """
for folder in $(seq %d); do
    mkdir -p %s/$folder
    for file in $(seq %d); do head -c $((1000 + (folder * 7919 + file * 104729) %% %d)) /dev/urandom > %s/$folder/$file; done
done
"""

POSTMARK = "printf 'set number %d\\nset transactions %d\\nset seed 5\\nset location .\\nrun\\nquit\\n' > load"

# A C program of 96 files with a header each, spread over twelve folders.
PROGRAM = """
for file in $(seq 96); do
    folder=part$((file % 12)); mkdir -p $folder
    (echo "#define LIMIT $file"; for line in $(seq 200); do echo "/* limit of counter $line in file $file */"; done) > $folder/$file.h
    (echo "#include <$file.h>"; for line in $(seq 60); do echo "int f${file}_$line(int a) { return a % LIMIT + $line; }"; done) > $folder/$file.c
done
printf 'OBJECTS = $(patsubst %%.c,%%.o,$(wildcard part*/*.c))\nall.a: $(OBJECTS)\n\tar rc $@ $^\n%%.o: %%.c\n\tgcc -O0 -I$(<D) -c -o $@ $<\n' > Makefile
"""

# 60 transactions of eight rows each in a table of 20,000, each of them synchronous.
ROWS = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) insert into t select i, hex(randomblob(100)) from n;"
DATABASE = f"""
sqlite3 db 'pragma journal_mode=delete; create table t (id integer primary key, v text); {ROWS}'
for transaction in $(seq 60); do
    echo 'begin;'
    for row in $(seq 8); do echo "update t set v = '$transaction-$row' where id = $(((transaction * 7919 + row * 104729) % 20000 + 1));"; done
    echo 'commit;'
done > load
"""


TEXT = "head -c %dM /dev/urandom | base64 -w 0 > in"


@dataclass
class Workload:
    """A command in a new file system, which `setup` fills, and the configurations in which it runs."""
    setup: str
    command: str
    configurations: tuple
    file_system: str = "ext2"
    mount_options: str = ""
    # Memory of the command, if its programs need more than a configuration gives.
    memory: str | None = None
    # Share of waits for I/O in the elapsed time in percent, in table 3 of Ganger and Patt (1998).
    io_wait_pct: float | None = None
    # Of other programs: what it does.
    title: str | None = None


WORKLOADS = {
    # A process for every two files, so that the command computes for a fifth of its time.
    "copytree": Workload(
        TREE % (20, "a", 25, 60000, "a"),
        "mkdir b; find a -type f | xargs -n 2 cp --parents -t b",
        ("c-look", "other disk", "clone"), io_wait_pct=77.9),
    # Names are removed on the disk before a call returns, as in the paper. The tree is in memory.
    "removetree": Workload(
        TREE % (10, "a", 40, 20000, "a"), "find a -type f | xargs -n 2 rm; rm -r a",
        ("c-look", "other disk"), mount_options="dirsync", io_wait_pct=81.9),
    "compress": Workload(TEXT % 24, "xz -0 < in > out", ("c-look", "other disk", "clone"), io_wait_pct=12.9),
    "uncompress": Workload(TEXT % 20 + " && head -c 4M /dev/urandom >> in && xz -1 in", "unxz < in.xz > out", ("c-look", "other disk"), io_wait_pct=32.7),
    "copies": Workload(
        "".join(TREE % (8, name, 40, 60000, name) for name in "abcd"),
        "for tree in a b c d; do cp -r $tree copy-of-$tree & done; wait",
        ("fcfs", "c-look", "sptf", "spctf", "criticality", "other disk")),
    "postmark": Workload(
        POSTMARK % (4000, 4000), "postmark load > /dev/null", ("fcfs", "c-look", "sptf", "half memory")),
    "build": Workload(PROGRAM, "make -j4 -s", ("c-look", "other disk"), memory="192MiB"),
    "database": Workload(DATABASE, "sqlite3 db < load", ("c-look", "other disk", "clone"), file_system="ext4"),
}

FILES = TREE % (10, "a", 25, 60000, "a")

MAPPED = '''python3 -c "
import mmap, random
draw = random.Random(3)
with open('data', 'r+b') as file:
    pages = mmap.mmap(file.fileno(), 0)
    total = sum(pages[draw.randrange(len(pages))] for _ in range(600))
    for _ in range(200): pages[draw.randrange(len(pages))] = 1
    pages.flush()"'''

APPENDS = '''python3 -c "
import os
log = os.open('log', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for _ in range(150): os.write(log, b'x' * 700); os.fdatasync(log)"'''

OTHER_CONFIGURATIONS = ("c-look", "other disk", "nearline")


def other(title, setup, command, file_system, memory=None):
    return Workload(setup, command, OTHER_CONFIGURATIONS, file_system=file_system, memory=memory, title=title)


WORKLOADS |= {
    "dsync": other("`dd oflag=dsync`, 150 times 16 KiB", "true", "dd if=/dev/zero of=out oflag=dsync bs=16k count=150 status=none", "ext4"),
    "mapped": other("600 reads and 200 changes of a mapped file of 48 MiB, `msync`", "head -c 48M /dev/urandom > data", MAPPED, "ext2", "96MiB"),
    "fio": other(
        "fio, random reads and writes of 8 KiB, `fsync` after 16", "head -c 32M /dev/urandom > data",
        "fio --name=j --filename=data --size=32M --rw=randrw --bs=8k --ioengine=psync --number_ios=400 --fsync=16 --randseed=3 --output=/dev/null",
        "ext2"),
    "git": other(
        "`git add`, `git commit` of 250 files", FILES,
        "export HOME=$PWD; git init -q .; git config user.email a@b; git config user.name a; git add a; git commit -qm x", "ext4"),
    "wal": other("SQLite, 60 transactions, WAL", DATABASE.replace("journal_mode=delete", "journal_mode=wal"), "sqlite3 db < load", "ext4"),
    "appends": other("150 appends of 700 B, `fdatasync`", "true", APPENDS, "ext4", "96MiB"),
    "copy": other("`cp -r`, `sync` of 250 files", FILES, "cp -r a b; sync", "ext4"),
    "tar": other("`tar` of 250 files, and back", FILES, "tar cf out.tar a; mkdir b; tar xf out.tar -C b", "ext4"),
    "cat": other("four `cat` at once, 250 files", FILES, "find a -type f | xargs -P 4 -n 10 cat > /dev/null", "ext4"),
    "grep": other("`grep -r`, 250 files", FILES, "grep -rc zzzz a > /dev/null || true", "ext2"),
    "find": other("`find` in 60 folders", TREE % (60, "a", 20, 3000, "a"), "find a -type f -printf '%s\\n' > list", "ext4"),
    "sort": other("`sort -S 4M` of 16 MiB", "head -c 12M /dev/urandom | base64 > in", "sort -S 4M -T . in > out", "ext2"),
}


@dataclass
class Configuration:
    """A device with its scheduler, and the memory of the command."""
    device: str
    scheduler: str
    memory: str = "64MiB"
    options: tuple = ()


CONFIGURATIONS = {
    "fcfs": Configuration("cheetah-36es", "fcfs"),
    "c-look": Configuration("cheetah-36es", "c-look"),
    "sptf": Configuration("cheetah-36es", "sptf"),
    "spctf": Configuration("cheetah-36es", "spctf"),
    # The requests have the classes of the kernel's flags.
    "criticality": Configuration("cheetah-36es", "criticality-c-look", options=("--criticality", "flags")),
    "half memory": Configuration("cheetah-36es", "c-look", memory="32MiB"),
    "other disk": Configuration("hp-c2247a", "c-look"),
    "clone": Configuration("clone.toml", "c-look"),
    "nearline": Configuration("nearline-7200", "sptf"),
}

# Changes of one thing. The tables have both directions.
CHANGES = [("fcfs", "c-look"), ("fcfs", "sptf"), ("c-look", "sptf"), ("sptf", "spctf"), ("c-look", "criticality"),
           ("c-look", "half memory"), ("c-look", "other disk"), ("c-look", "clone")]

# Rows of table 4, and the difference that the model may have in percent.
LIMITS_PCT = {"elapsed s": 2, "task CPU s": 5, "I/O wait s": 5, "I/O waits": 5, "mean I/O wait ms": 5, "requests": 1, "response time ms": 5,
              "reads": 5, "reads alike": 5}

# Causes of waits that are waits for I/O.
IO_WAITS = ("data_read_s", "metadata_read_s", "write_s", "flush_s", "journal_s", "throttle_s", "queue_s", "memory_s")

# Replays of the requests of a trace, by the name in the tables.
REPLAYS = {"open": ["--open"], "closed": ["--closed", "auto"], "think": ["--think"]}


def chosen(options):
    """Workloads with their configurations, as far as the options name them."""
    for name in options.workload or [name for name, work in WORKLOADS.items() if bool(work.title) == options.others]:
        for configuration in WORKLOADS[name].configurations:
            if configuration in (options.configuration or CONFIGURATIONS):
                yield name, configuration


def device_of(options, configuration):
    """The device of a configuration: a name of the catalog, or the description of the clone."""
    device = CONFIGURATIONS[configuration].device
    if not device.endswith(".toml"):
        return device
    clone = options.results / device
    if not clone.exists():
        subprocess.run([SEEKLAB, "fit", str(TRACE_OF_THE_CLONE), "-o", str(clone), "--quiet"], stdout=subprocess.DEVNULL, check=False)
    return str(clone)


def run(options, workload, configuration, extra):
    """Runs a workload once, and returns the figures of its only repetition."""
    work, host = WORKLOADS[workload], CONFIGURATIONS[configuration]
    result = subprocess.run(
        [SEEKLAB, "run", device_of(options, configuration), "--scheduler", host.scheduler, "--fs", work.file_system,
         "--mount-options", work.mount_options, "--size", "1000MiB", "--setup", work.setup, "--memory", work.memory or host.memory, *host.options,
         "--pacing", "exact", "--host-scheduler", "none", "--dirty-limit", "8MiB", "--wbt", "off", "--cpus", "1", "--quiet", "--json", *extra,
         "--", "sh", "-ec", work.command],
        stdout=subprocess.PIPE, check=False)
    if result.returncode != 0:
        sys.exit(f"{workload}, {configuration}: seeklab run exited with {result.returncode}")
    figures = json.loads(result.stdout)["devices"][0]["repetitions"][0]
    print(f"{workload}, {configuration}: {figures['elapsed_s']:.2f} s", file=sys.stderr)
    return figures


def traced_run(options, workload, configuration, kind):
    """Runs a workload once with a trace, which it keeps, and returns the line that describes it."""
    with tempfile.TemporaryDirectory(dir=options.results) as folder:
        figures = run(options, workload, configuration, ["--system", folder])
        (trace,) = Path(folder).glob("*.sys")
        number = len(list(options.results.glob(f"{workload}-{configuration}-{kind}-*.sys".replace(" ", "-"))))
        name = f"{workload}-{configuration}-{kind}-{number}.sys".replace(" ", "-")
        trace.rename(options.results / name)
    return {"workload": workload, "configuration": configuration, "trace": name, "figures": figures}


def append(options, file, line):
    with open(options.results / file, "a", encoding="utf-8") as lines:
        lines.write(json.dumps(line) + "\n")


def read(options, file):
    try:
        return [json.loads(line) for line in (options.results / file).read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        return []


def record(options):
    for repetition, (workload, configuration) in itertools.product(range(options.repetitions), chosen(options)):
        done = [line for line in read(options, "recorded.json") if (line["workload"], line["configuration"]) == (workload, configuration)]
        if len(done) <= repetition:
            append(options, "recorded.json", traced_run(options, workload, configuration, "traced"))


def simulate(options, trace, configuration, extra):
    """Figures of a simulation from a trace."""
    host = CONFIGURATIONS[configuration]
    result = subprocess.run(
        [SEEKLAB, "simulate", device_of(options, configuration), "--scheduler", host.scheduler, "--workload", str(options.results / trace),
         "--json", "--quiet", *extra], stdout=subprocess.PIPE, check=False)
    if not result.stdout:
        sys.exit(f"{trace} on {configuration}: seeklab simulate exited with {result.returncode}")
    return json.loads(result.stdout)["devices"][0]


def memory_of(traced, configuration):
    """Options that give a host the memory of a configuration, if that of the trace is another."""
    before, after = CONFIGURATIONS[traced].memory, CONFIGURATIONS[configuration].memory
    return [] if before == after else ["--host", f"memory={after}"]


def predict(options):
    done = {(line["trace"], line["configuration"]) for line in read(options, "predictions.json")}
    for line in read(options, "recorded.json"):
        workload, traced = line["workload"], line["configuration"]
        for configuration in WORKLOADS[workload].configurations:
            if (line["trace"], configuration) in done:
                continue
            figures = simulate(options, line["trace"], configuration, memory_of(traced, configuration))
            replays = {name: simulate(options, line["trace"], configuration, extra) for name, extra in REPLAYS.items()}
            replays = {name: {key: one[key] for key in ("duration_s", "response_mean_ms", "requests")} for name, one in replays.items()}
            append(options, "predictions.json", {
                "workload": workload, "trace": line["trace"], "traced": traced, "configuration": configuration,
                "figures": figures, "replays": replays})


def measure(options):
    predicted = {(line["workload"], line["configuration"]) for line in read(options, "predictions.json")}
    runs = list(chosen(options))
    for missing in runs:
        if missing not in predicted:
            sys.exit(f"{' '.join(missing)}: no prediction. Run `record` and `predict` first")
    done = {(line["workload"], line["configuration"], line["repetition"]) for line in read(options, "measured.json")}
    for repetition in range(options.repetitions):
        draw = random.Random(f"{options.seed} {repetition}")
        draw.shuffle(runs)
        for workload, configuration in runs:
            is_first = draw.random() < 0.5
            if (workload, configuration, repetition) in done:
                continue
            beside = None
            if repetition < options.pairs and is_first:
                beside = traced_run(options, workload, configuration, "beside")
            figures = run(options, workload, configuration, [])
            if repetition < options.pairs and not is_first:
                beside = traced_run(options, workload, configuration, "beside")
            append(options, "measured.json", {"workload": workload, "configuration": configuration, "repetition": repetition,
                                              "figures": figures, "beside": beside})


def half_width(values):
    """Half-width of the 95 % confidence interval of the mean, by Student's t."""
    quantiles = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}
    if len(values) < 2:
        return float("nan")
    return quantiles.get(len(values), 1.96) * statistics.stdev(values) / len(values) ** 0.5


def change(before, after):
    """Change of the mean in percent, and the half-width of its 95 % confidence interval in points."""
    a, b = statistics.mean(before), statistics.mean(after)
    width = 100 * b / a * ((half_width(before) / a) ** 2 + (half_width(after) / b) ** 2) ** 0.5
    return 100 * (b / a - 1), width


class Tables:
    """The results of a folder."""

    def __init__(self, options):
        self.options = options
        self.measured, self.predictions, self.recorded = (
            read(options, f"{name}.json") for name in ("measured", "predictions", "recorded"))

    def elapsed(self, workload, configuration):
        return [line["figures"]["elapsed_s"] for line in self.measured
                if (line["workload"], line["configuration"]) == (workload, configuration)]

    def predicted(self, workload, traced, configuration):
        return [line for line in self.predictions
                if (line["workload"], line["traced"], line["configuration"]) == (workload, traced, configuration)]

    def mean(self, workload, traced, configuration, figure):
        values = [figure(line) for line in self.predicted(workload, traced, configuration)]
        return statistics.mean(values) if values else None

    def changes(self):
        """Changes of elapsed times: measured, by the host, and by what knows requests alone."""
        print("| workload | change | measured | counts | host | difference, points | met | open | closed | think | waits scaled |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
        counting = met = 0
        for workload, pair in itertools.product(WORKLOADS, CHANGES):
            for before, after in (pair, pair[::-1]):
                first, second = self.elapsed(workload, before), self.elapsed(workload, after)
                if not (first and second and self.predicted(workload, before, after)):
                    continue
                real, width = change(first, second)

                def by(figure):
                    return 100 * (self.mean(workload, before, after, figure) / self.mean(workload, before, before, figure) - 1)

                host = by(lambda line: line["figures"]["host"]["elapsed_s"])
                replays = [by(lambda line, name=name: line["replays"][name]["duration_s"]) for name in REPLAYS]
                own = statistics.mean(line["figures"]["elapsed_s"] for line in self.recorded
                                      if (line["workload"], line["configuration"]) == (workload, before))
                waits = statistics.mean(io_wait_s(self.options.results / line["trace"]) for line in self.recorded
                                        if (line["workload"], line["configuration"]) == (workload, before))
                rule = waits / own * by(lambda line: line["replays"]["open"]["response_mean_ms"])
                counts = abs(real) >= 10 and width <= 2
                is_met = abs(host - real) <= max(2, abs(real) / 10)
                counting, met = counting + counts, met + (counts and is_met)
                cells = [f"{value:+.1f} %" for value in (*replays, rule)]
                print(f"| {workload} | {before} to {after} | {real:+.1f} ± {width:.1f} % | {'yes' if counts else 'no'} | {host:+.1f} % | "
                      f"{host - real:+.1f} | {'yes' if is_met else 'no'} | {' | '.join(cells)} |")
        print(f"\n{met} of {counting} counting cases are met.")

    def times(self):
        """Elapsed times beside those that the host predicts from traces of each configuration."""
        print("| workload | configuration | runs | measured s | sd | from its own traces | from others |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        errors = []
        for workload, work in WORKLOADS.items():
            for configuration in work.configurations:
                times = self.elapsed(workload, configuration)
                if not times:
                    continue
                real = statistics.mean(times)
                cells = []
                for traced in work.configurations:
                    model = self.mean(workload, traced, configuration, lambda line: line["figures"]["host"]["elapsed_s"])
                    if model is not None:
                        error = 100 * (model / real - 1)
                        cells.append((traced, f"{error:+.1f} %"))
                        if traced != configuration and (CONFIGURATIONS[traced].device != CONFIGURATIONS[configuration].device):
                            errors.append(abs(error))
                own = dict(cells).get(configuration, "")
                others = ", ".join(f"{traced} {cell}" for traced, cell in cells if traced != configuration)
                spread = statistics.stdev(times) if len(times) > 1 else 0
                print(f"| {workload} | {configuration} | {len(times)} | {real:.3f} | {spread:.3f} | {own} | {others} |")
        if errors:
            print(f"\nChanges of the device: mean error of the elapsed time {statistics.mean(errors):.1f} %.")

    def rows(self):
        """Rows of table 4: recordings beside predictions from themselves, each with its difference; bold beyond the limit and twice the
        standard error."""
        print(f"| workload | configuration | {' | '.join(LIMITS_PCT)} |")
        print(f"| --- | --- |{' --- |' * len(LIMITS_PCT)}")
        for workload, work in WORKLOADS.items():
            for configuration in work.configurations if not work.title else ():
                pairs = collections.defaultdict(list)
                for line in self.predicted(workload, configuration, configuration):
                    for name, values in table_4(self.options, line).items():
                        pairs[name].append(values)
                if not pairs:
                    continue
                cells = []
                for name, limit in LIMITS_PCT.items():
                    real, model = (statistics.mean(side) for side in zip(*pairs[name]))
                    spread = [one[0] for one in pairs[name]]
                    error = 200 * statistics.stdev(spread) / len(spread) ** 0.5 / real if len(spread) > 1 and real else 0
                    difference = 100 * (model / real - 1) if real else 0
                    mark = "**" if abs(difference) > max(limit, error) else ""
                    cells.append(f"{real:.4g}, {mark}{difference:+.1f} %{mark}")
                print(f"| {workload} | {configuration} | {' | '.join(cells)} |")

    def character(self):
        """Shares of the elapsed time, beside those of the paper."""
        print("| workload | configuration | computing % | ready % | waits for I/O % | theirs % | unknown waits % |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for (workload, configuration), lines in itertools.groupby(
                sorted((line for line in self.recorded if not WORKLOADS[line["workload"]].title), key=lambda line: (line["workload"], line["configuration"])),
                key=lambda line: (line["workload"], line["configuration"])):
            traces = [trace_info(self.options.results / line["trace"]) for line in lines]
            elapsed = statistics.mean(trace["command_elapsed_s"] for trace in traces)

            def share(figure):
                return 100 * statistics.mean(figure(trace) for trace in traces) / elapsed

            theirs = WORKLOADS[workload].io_wait_pct
            computing = share(lambda trace: trace["task"]["computing_s"])
            ready = share(lambda trace: trace["task"]["ready_s"])
            waits = share(lambda trace: sum(trace["task"]["waits"][cause] for cause in IO_WAITS))
            unknown = statistics.mean(trace["unknown_pct"] for trace in traces)
            print(f"| {workload} | {configuration} | {computing:.1f} | {ready:.1f} | {waits:.1f} | {theirs or ''} | {unknown:.2f} |")

    def others(self):
        """Elapsed times of recorded runs of other programs, and how far predictions from the recordings of each disk are from them."""
        recordings = [(workload, configuration) for workload, work in WORKLOADS.items() if work.title for configuration in work.configurations]
        print("| program (file system) | disk | recorded s | " + " | ".join(f"from {name}" for name in OTHER_CONFIGURATIONS) + " |")
        print("| --- | --- | --- | " + " | ".join("---" for _ in OTHER_CONFIGURATIONS) + " |")
        for workload, configuration in recordings:
            elapsed = [line["figures"]["elapsed_s"] for line in self.recorded
                       if (line["workload"], line["configuration"]) == (workload, configuration)]
            if not elapsed:
                continue
            recorded = statistics.mean(elapsed)
            spread = f" ± {(max(elapsed) - min(elapsed)) / 2:.2f}" if len(elapsed) > 1 else ""
            differences = [self.mean(workload, traced, configuration, lambda line: line["figures"]["host"]["elapsed_s"])
                           for traced in OTHER_CONFIGURATIONS]
            cells = ["" if one is None else f"{100 * (one / recorded - 1):+.1f} %" for one in differences]
            work = WORKLOADS[workload]
            title = f"{work.title} ({work.file_system})" if configuration == work.configurations[0] else ""
            print(f"| {title} | {configuration} | {recorded:.2f}{spread} | {' | '.join(cells)} |")

    def cost(self):
        """What recording adds to elapsed times, in pairs."""
        print("| workload | pairs | elapsed with a trace to without | ± |")
        print("| --- | --- | --- | --- |")
        ratios = collections.defaultdict(list)
        for line in self.measured:
            if line.get("beside"):
                ratios[line["workload"]].append(100 * (line["beside"]["figures"]["elapsed_s"] / line["figures"]["elapsed_s"] - 1))
        for workload, values in ratios.items():
            print(f"| {workload} | {len(values)} | {statistics.mean(values):+.2f} % | {half_width(values):.2f} |")
        everything = [value for values in ratios.values() for value in values]
        if everything:
            print(f"| all | {len(everything)} | {statistics.mean(everything):+.2f} % | {half_width(everything):.2f} |")


INFOS = {}


def trace_info(path):
    if path not in INFOS:
        result = subprocess.run([SEEKLAB, "trace", "info", str(path), "--json"], stdout=subprocess.PIPE, check=True)
        INFOS[path] = json.loads(result.stdout)["traces"][0]
    return INFOS[path]


def io_wait_s(path):
    waits = trace_info(path)["task"]["waits"]
    return sum(waits[cause] for cause in IO_WAITS)


def requests_of(trace, folder):
    """Operation, address and length of each request, and the mean response and service time in ms."""
    path = Path(folder) / "requests.csv"
    subprocess.run([SEEKLAB, "trace", "convert", str(trace), str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   check=True)
    with open(path, encoding="utf-8") as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def table_4(options, line):
    """Figures of a recording, each beside that of its prediction."""
    path, own = options.results / line["trace"], line["figures"]
    trace, host = trace_info(path), own["host"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "predicted.parquet"
        simulate(options, line["trace"], line["configuration"], ["--out", str(out)])
        predicted = requests_of(out, folder)
        measured = requests_of(path / "requests.parquet", folder)

    def mean_response(requests):
        return statistics.mean(int(one["response_ns"]) for one in requests if one["response_ns"]) / 1e6

    def reads(requests):
        return collections.Counter((one["lbn"], one["blocks"]) for one in requests if one["op"] == "read")

    waits = io_wait_s(path)
    alike = (reads(measured) & reads(predicted)).total()
    return {
        "elapsed s": (trace["command_elapsed_s"], host["elapsed_s"]),
        "task CPU s": (trace["task"]["computing_s"], host["task_cpu_s"]),
        "I/O wait s": (waits, host["io_wait_s"]),
        "I/O waits": (trace["io_waits"], host["io_waits"]),
        "mean I/O wait ms": (1e3 * waits / max(trace["io_waits"], 1), host["io_wait_mean_ms"] or 0),
        "requests": (len(measured), len(predicted)),
        "response time ms": (mean_response(measured), mean_response(predicted)),
        "reads": (reads(measured).total(), reads(predicted).total()),
        "reads alike": (reads(measured).total(), alike),
    }


def table(options):
    tables = Tables(options)
    for one in (tables.changes, tables.times, tables.character, tables.cost, tables.rows, tables.others):
        one()
        print()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    for verb, repetitions in ((record, 5), (predict, None), (measure, 10), (table, None)):
        command = verbs.add_parser(verb.__name__)
        command.add_argument("--results", type=Path, required=True)
        if repetitions:
            command.add_argument("--workload", action="append", choices=list(WORKLOADS))
            command.add_argument("--configuration", action="append", choices=list(CONFIGURATIONS))
            command.add_argument("--repetitions", type=int, default=repetitions)
            command.add_argument("--pairs", type=int, default=0)
            command.add_argument("--seed", type=int, default=1)
            command.add_argument("--others", action="store_true")
        command.set_defaults(run=verb)
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    options.run(options)


if __name__ == "__main__":
    main()
