#!/usr/bin/env python3
"""Figure 3 of SPEK (He 2005): random writes of 16 KiB over time, past the page cache and through it.

Measures an emulated disk behind the kernel of this machine with `seeklab bench`, with `--buffered`, and with fio through the page
cache, in the place of IoMeter. The kernel may hold 64 MiB that are not written yet. The writes begin at multiples of 16 KiB; in one
more run at any sector, so that the page cache reads their first and last page before it changes them.

Usage: figure-3.py [FOLDER] [SEEKLAB] [SECONDS]; needs root, FUSE, loop devices and fio. Writes figure-3.svg into FOLDER [default: .].
Each run takes SECONDS [default: 60]. Ends with 1 unless requests per second past the cache vary by less than a tenth, and through it
by more than half.
"""
import pathlib
import statistics
import sys
import tempfile

import chart
import disk

DEVICE = "cheetah-36es"
SIZE = "8GiB"
OPTIONS = ["--block", "--size", SIZE, "--host-scheduler", "none", "--dirty-limit", "64MiB", "--wbt", "off"]
WORKLOAD = "random,read=0%,size=16KiB,closed=1"
ALIGNED = WORKLOAD + ",align=16KiB"


def ours(seeklab, seconds, workload, *options):
    """Requests per second in each second."""
    with disk.emulated(seeklab, DEVICE, *OPTIONS) as (target, _):
        figures = disk.bench(seeklab, target, workload, "--duration", f"{seconds}s", "--interval", "1s", *options)
    return [one["requests_per_second"] for one in figures["intervals"] if one["length_s"] > 0.9]


def of_fio(seeklab, seconds):
    with disk.emulated(seeklab, DEVICE, *OPTIONS) as (target, _), tempfile.TemporaryDirectory() as folder:
        disk.fio(f"--filename={target}", "--rw=randwrite", "--bs=16k", "--direct=0", f"--runtime={seconds}", "--log_avg_msec=1000",
                 f"--write_iops_log={folder}/log", "--randrepeat=1", "--allow_file_create=0", "--fallocate=none", "--invalidate=0")
        rates = [0.0] * seconds
        for line in pathlib.Path(folder, "log_iops.1.log").read_text(encoding="utf-8").splitlines():
            milliseconds, rate = (float(cell) for cell in line.split(",")[:2])
            rates[min(max(round(milliseconds / 1000) - 1, 0), seconds - 1)] = rate
    return rates


def main():
    folder, seeklab, seconds = disk.arguments(60)
    runs = [
        ("seeklab", ours(seeklab, seconds, ALIGNED)),
        ("seeklab --buffered", ours(seeklab, seconds, ALIGNED, "--buffered")),
        ("fio, buffered", of_fio(seeklab, seconds)),
        ("seeklab --buffered, at any sector", ours(seeklab, seconds, WORKLOAD, "--buffered")),
    ]
    series = [(name, [(second + 0.5, rate) for second, rate in enumerate(rates)], index > 0) for index, (name, rates) in enumerate(runs)]
    chart.write(folder / "figure-3.svg", f"Random writes of 16 KiB to {DEVICE} (SPEK, figure 3)", "time, s", "requests/s", series)
    variation = {name: statistics.pstdev(rates) / statistics.mean(rates) for name, rates in runs}
    rows = [[name, *(f"{figure:.0f}" for figure in (statistics.mean(rates), min(rates), max(rates))), f"{100 * variation[name]:.1f} %"]
            for name, rates in runs]
    disk.print_table(["program", "requests/s: mean", "least second", "greatest second", "standard deviation of seconds"], rows)
    direct, *buffered = variation.values()
    sys.exit(not (direct < 0.1 and min(buffered) > 0.5))


if __name__ == "__main__":
    main()
