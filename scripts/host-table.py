#!/usr/bin/env python3
"""Predictions of the host model against runs of the programs: the tables of docs/models/host.md.

    scripts/host-table.py record  --results FOLDER [--workload NAME]... [--configuration NAME]... [--repetitions N]
    scripts/host-table.py predict --results FOLDER
    scripts/host-table.py measure --results FOLDER [--workload NAME]... [--configuration NAME]... [--repetitions N] [--seed N]
    scripts/host-table.py table   --results FOLDER

record       runs each workload with `seeklab run --system` in each configuration and keeps the traces.
predict      simulates each configuration from the traces of each, its own and the others, and writes predictions.json.
measure      runs each workload without a trace, in an order drawn from the seed for each repetition. Refuses if a
             prediction is missing: a prediction is on disk before the first run of what it predicts.
table        prints the tables as Markdown: elapsed times and their changes, and the rows of each own configuration.

record and measure need root, FUSE, loop devices and tracefs, and PostMark, gcc, make, xz and sqlite3.

The host is small: 8 MiB of the device may be dirty, and writeback is not throttled. The command has one processor: ext4 gives new
files places by processor, so a command that moves between two of them writes its files alternately to two places, and a copy
takes up to 1.8 times as long. How often it moves depends on what else the machine does. The host's scheduler is `none`, so
that the emulated disk orders the requests. The file system is ext2, which has no journal, and ext4 for the database.
Settings: SEEKLAB (the program).
"""

import argparse
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


@dataclass
class Workload:
    """A command in a new file system, which `setup` fills."""
    setup: str
    command: str
    file_system: str = "ext2"
    mount_options: str = ""


TEXT = "head -c 12M /dev/urandom | base64 -w 0 > in"

WORKLOADS = {
    "copy": Workload(TREE % (20, "a", 40, 60000, "a"), "cp -r a b"),
    "copies": Workload(
        "".join(TREE % (8, name, 40, 60000, name) for name in "abcd"),
        "for tree in a b c d; do cp -r $tree copy-of-$tree & done; wait",
    ),
    "postmark": Workload(POSTMARK % (4000, 4000), "postmark load > /dev/null"),
    # Names are removed on the disk before a call returns, as in the paper.
    "remove": Workload(TREE % (10, "a", 60, 20000, "a"), "rm -r a", mount_options="dirsync"),
    "compress": Workload(TEXT, "xz -1 < in > out"),
    "uncompress": Workload(TEXT + " && xz -1 in", "unxz < in.xz > out"),
    "build": Workload(PROGRAM, "make -j4 -s"),
    "database": Workload(DATABASE, "sqlite3 db < load", file_system="ext4"),
}

# Name: device, scheduler.
CONFIGURATIONS = {
    "fcfs": ("cheetah-36es", "fcfs"),
    "c-look": ("cheetah-36es", "c-look"),
    "sptf": ("cheetah-36es", "sptf"),
    "other disk": ("hp-c2247a", "c-look"),
}

# Causes of waits that are waits for I/O.
IO_WAITS = ("data_read_s", "metadata_read_s", "write_s", "flush_s", "journal_s", "throttle_s", "queue_s", "memory_s")


def run(workload, configuration, extra):
    """Runs a workload once, and returns the figures of its only repetition."""
    work = WORKLOADS[workload]
    device, scheduler = CONFIGURATIONS[configuration]
    result = subprocess.run(
        [SEEKLAB, "run", device, "--scheduler", scheduler, "--fs", work.file_system,
         "--mount-options", work.mount_options, "--size", "1000MiB", "--setup", work.setup,
         "--host-scheduler", "none", "--dirty-limit", "8MiB", "--wbt", "off", "--cpus", "1", "--quiet", "--json", *extra,
         "--", "sh", "-ec", work.command],
        stdout=subprocess.PIPE, check=False)
    if result.returncode != 0:
        sys.exit(f"{workload}, {configuration}: seeklab run exited with {result.returncode}")
    figures = json.loads(result.stdout)["devices"][0]["repetitions"][0]
    print(f"{workload}, {configuration}: {figures['elapsed_s']:.2f} s", file=sys.stderr)
    return figures


def append(options, file, line):
    with open(options.results / file, "a", encoding="utf-8") as lines:
        lines.write(json.dumps(line) + "\n")


def read(options, file):
    try:
        return [json.loads(line) for line in (options.results / file).read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        return []


def record(options):
    for _ in range(options.repetitions):
        for workload in options.workload or WORKLOADS:
            for configuration in options.configuration or CONFIGURATIONS:
                with tempfile.TemporaryDirectory(dir=options.results) as folder:
                    figures = run(workload, configuration, ["--system", folder])
                    (trace,) = Path(folder).glob("*.sys")
                    number = sum(1 for line in read(options, "recorded.json")
                                 if (line["workload"], line["configuration"]) == (workload, configuration))
                    name = f"{workload} {configuration} {number}.sys".replace(" ", "-")
                    trace.rename(options.results / name)
                append(options, "recorded.json", {"workload": workload, "configuration": configuration, "trace": name,
                                                  "figures": figures})


def predict(options):
    done = {(line["trace"], line["configuration"]) for line in read(options, "predictions.json")}
    for line, (configuration, (device, scheduler)) in itertools.product(read(options, "recorded.json"), CONFIGURATIONS.items()):
        if (line["trace"], configuration) in done:
            continue
        result = subprocess.run(
            [SEEKLAB, "simulate", device, "--scheduler", scheduler, "--workload", str(options.results / line["trace"]), "--json",
             "--quiet"], stdout=subprocess.PIPE, check=True)
        append(options, "predictions.json", {"workload": line["workload"], "trace": line["trace"], "traced": line["configuration"],
                                             "configuration": configuration, "figures": json.loads(result.stdout)["devices"][0]})


def measure(options):
    predicted = {(line["workload"], line["configuration"]) for line in read(options, "predictions.json")}
    runs = list(itertools.product(options.workload or WORKLOADS, options.configuration or CONFIGURATIONS))
    for missing in runs:
        if missing not in predicted:
            sys.exit(f"{' '.join(missing)}: no prediction. Run `record` and `predict` first")
    first = 1 + max((line["repetition"] for line in read(options, "measured.json")), default=-1)
    for repetition in range(first, first + options.repetitions):
        random.Random(f"{options.seed} {repetition}").shuffle(runs)
        for workload, configuration in runs:
            append(options, "measured.json", {"workload": workload, "configuration": configuration, "repetition": repetition,
                                              "figures": run(workload, configuration, [])})


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


def table(options):
    measured, predictions, recorded = (read(options, f"{name}.json") for name in ("measured", "predictions", "recorded"))

    def elapsed(workload, configuration):
        return [line["figures"]["elapsed_s"] for line in measured
                if (line["workload"], line["configuration"]) == (workload, configuration)]

    def predicted(workload, traced, configuration):
        return [line["figures"]["host"]["elapsed_s"] for line in predictions
                if (line["workload"], line["traced"], line["configuration"]) == (workload, traced, configuration)]

    workloads = [name for name in WORKLOADS if any(elapsed(name, configuration) for configuration in CONFIGURATIONS)]
    print("| workload | configuration | measured s | sd | runs | predicted from its own trace s | error |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for workload, configuration in itertools.product(workloads, CONFIGURATIONS):
        times = elapsed(workload, configuration)
        own = predicted(workload, configuration, configuration)
        if times and own:
            mean = statistics.mean(times)
            print(f"| {workload} | {configuration} | {mean:.2f} | {statistics.stdev(times) if len(times) > 1 else 0:.2f} | {len(times)} | "
                  f"{statistics.mean(own):.2f} | {100 * (statistics.mean(own) / mean - 1):+.1f} % |")
    print()
    print("| workload | change | measured | counts | predicted, from traces before the change only | difference, points |")
    print("| --- | --- | --- | --- | --- | --- |")
    for workload, (before, after) in itertools.product(workloads, itertools.permutations(CONFIGURATIONS, 2)):
        first, second = elapsed(workload, before), elapsed(workload, after)
        if not (first and second and predicted(workload, before, after)):
            continue
        real, width = change(first, second)
        model = 100 * (statistics.mean(predicted(workload, before, after)) / statistics.mean(predicted(workload, before, before)) - 1)
        counts = "yes" if abs(real) >= 10 and width <= 2 else "no"
        print(f"| {workload} | {before} to {after} | {real:+.1f} ± {width:.1f} % | {counts} | {model:+.1f} % | {model - real:+.1f} |")
    print()
    print("| workload | configuration | recordings | elapsed s | requests | task CPU s | I/O wait s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for workload, configuration in itertools.product(WORKLOADS, CONFIGURATIONS):
        traces = [line["trace"] for line in recorded if (line["workload"], line["configuration"]) == (workload, configuration)]
        sums = {}
        for name in traces:
            own = [line["figures"] for line in predictions if (line["trace"], line["configuration"]) == (name, configuration)]
            if not own:
                continue
            for row, (real, model) in rows(options.results / name, own[0]).items():
                sums.setdefault(row, []).append((real, model))
        if sums:
            cells = []
            for pairs in sums.values():
                real, model = (statistics.mean(values) for values in zip(*pairs))
                cells.append(f"{real:.4g}, {model:.4g} ({100 * (model / real - 1):+.1f} %)")
            print(f"| {workload} | {configuration} | {len(traces)} | {' | '.join(cells)} |")


def rows(path, own):
    """Figures of a recording, each beside that of its prediction."""
    trace = json.loads(subprocess.run([SEEKLAB, "trace", "info", str(path), "--json"], stdout=subprocess.PIPE, check=True).stdout)["traces"][0]
    task, host = trace["task"], own["host"]
    return {
        "elapsed": (trace["command_elapsed_s"], host["elapsed_s"]),
        "requests": (trace["requests"], own["requests"]),
        "task CPU": (task["computing_s"], host["task_cpu_s"]),
        "I/O wait": (sum(task["waits"][cause] for cause in IO_WAITS), host["io_wait_s"]),
    }


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
            command.add_argument("--seed", type=int, default=1)
        command.set_defaults(run=verb)
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    options.run(options)


if __name__ == "__main__":
    main()
