#!/usr/bin/env python3
"""Figure 1 of SPEK (He 2005): benchmarks of file systems measure the file system, on one and the same disk.

Runs PostMark, Bonnie++ and, in the place of IoZone, buffered fio on an emulated disk, in several file systems with several mount
options, and measures the disk itself beside them with `seeklab bench`.

Usage: figure-1.py [FOLDER] [SEEKLAB]; needs root, FUSE, loop devices, memory cgroups, postmark, bonnie++, fio and the tools of the
file systems. File systems without their tools are left out, and named. Writes figure-1.svg into FOLDER [default: .]: each result
as a share of the best one. Takes twenty minutes. Ends with 1 unless each benchmark of file systems has results that differ by half or more,
and three measurements of the disk itself agree within a twentieth.
"""
import csv
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import chart
import disk

DEVICE = "cheetah-36es"
HOST = ["--size", "2GiB", "--host-scheduler", "none", "--dirty-limit", "8MiB", "--wbt", "off"]
# File system and mount options.
MOUNTS = [("ext2", ""), ("ext2", "sync"), ("ext4", ""), ("ext4", "data=journal"), ("ext4", "commit=1,nodelalloc"), ("ext4", "sync"), ("xfs", "")]
POSTMARK = "set number 1000\\nset transactions 1000\\nset size 1000 20000\\nset seed 5\\nset location .\\nrun\\nquit\\n"
# Each command writes to the file in the variable OUT. Bonnie++ and fio take files of twice the memory.
COMMANDS = {
    "PostMark": f"printf '{POSTMARK}' > load; postmark load > $OUT",
    "Bonnie++": "bonnie++ -d . -s 48M -r 24 -n 0 -f -q -m x -u root > $OUT 2> /dev/null",
    "fio": "fio --name=x --rw=randwrite --bs=16k --size=48m --io_size=16m --direct=0 --end_fsync=1 --randrepeat=1 --output=$OUT --output-format=json",
}
COLUMNS = ["PostMark transactions/s", "Bonnie++ write MiB/s", "Bonnie++ rewrite MiB/s", "Bonnie++ read MiB/s", "fio random writes/s"]
RAW = ["sequential,size=64KiB,read=0%,closed=1", "sequential,size=64KiB,read=100%,closed=1", "random,size=16KiB,align=16KiB,read=0%,closed=1"]


def results(name, text):
    """Figures in the output of a program."""
    if name == "PostMark":
        return [float(re.search(r"\((\d+) per second\)", text[text.index("transactions"):]).group(1))]
    if name == "Bonnie++":
        row = next(csv.reader([text.strip().splitlines()[-1]]))
        write, rewrite, read = (float(row[place]) / 1024 for place in (11, 13, 17))
        return [write, rewrite, read]
    return [disk.of_job(text)["iops"]]


def run(seeklab, file_system, options, name):
    """Runs a program in a new file system."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "out")
        subprocess.run([seeklab, "run", DEVICE, "--fs", file_system, "--mount-options", options, "--memory", "24MiB", "--cpus", "0", "--user", "root",
                        "--quiet", "--json", *HOST, "--", "sh", "-ec", COMMANDS[name].replace("$OUT", str(out))],
                       check=True, stdout=subprocess.DEVNULL)
        return results(name, out.read_text(encoding="utf-8"))


def raw(seeklab):
    """MiB/s of sequential writes and reads, and random writes per second, three times."""
    found = []
    for _ in range(3):
        figures = []
        for workload in RAW:
            with disk.emulated(seeklab, DEVICE, "--block", *HOST) as (target, _):
                one = disk.bench(seeklab, target, workload, "--duration", "10s", "--interval", "0s")
            figures.append(one["requests_per_second" if "random" in workload else "mib_per_second"])
        found.append(figures)
    return found


def main():
    folder, seeklab, _ = disk.arguments()
    table = {}
    for file_system, options in MOUNTS:
        if shutil.which(f"mkfs.{file_system}") is None:
            print(f"skipped {file_system}: mkfs.{file_system} is not installed", file=sys.stderr)
            continue
        label = f"{file_system} {options}".strip()
        table[label] = [figure for name in COMMANDS for figure in run(seeklab, file_system, options, name)]
        print(f"{label}: {', '.join(f'{figure:.1f}' for figure in table[label])}", file=sys.stderr)
    rows = [[label, *(f"{figure:.1f}" for figure in figures)] for label, figures in table.items()]
    columns = list(zip(*table.values()))
    ratios = [max(column) / max(min(column), 1e-9) for column in columns]
    rows.append(["greatest to least", *(f"{ratio:.1f}" for ratio in ratios)])
    disk.print_table(["file system", *COLUMNS], rows)
    print()
    measured = raw(seeklab)
    spread = [max(column) / min(column) for column in zip(*measured)]
    rows = [[f"{DEVICE}, run {number}", *(f"{figure:.1f}" for figure in figures)] for number, figures in enumerate(measured, 1)]
    rows.append(["greatest to least", *(f"{ratio:.3f}" for ratio in spread)])
    disk.print_table(["the disk itself", "sequential writes MiB/s", "sequential reads MiB/s", "random writes/s"], rows)
    series = [(name, [(place, column[place] / max(column)) for place in range(len(column))], False)
              for name, column in zip(("PostMark", "Bonnie++, write", "Bonnie++, read", "fio"), (columns[0], columns[1], columns[3], columns[4]))]
    chart.write(folder / "figure-1.svg", f"Benchmarks of file systems on {DEVICE} (SPEK, figure 1)", "file system and mount options",
                "share of the best", series, list(table))
    sys.exit(not (min(ratios) >= 1.5 and max(spread) <= 1.05))


if __name__ == "__main__":
    main()
