#!/usr/bin/env python3
"""Figure 5 of SPEK (He 2005): four workloads over request sizes, past the page cache and through it.

Measures an emulated disk behind the kernel of this machine with `seeklab bench`, with fio past the page cache, and with fio through
it, in the place of IoMeter. The disk has 8 GiB for random requests, and 512 MiB for sequential ones, which begin at a random place in
seeklab and at the first block in fio: all of it lies in one zone.

Usage: figure-5.py [FOLDER] [SEEKLAB] [SECONDS] [PANELS]; needs root, FUSE, loop devices and fio. Writes figure-5a.svg to
figure-5d.svg into FOLDER [default: .], or some PANELS of them, such as `ab`. Random requests take SECONDS for each program and size
[default: 30]. Sequential ones take a tenth of it, three times in turn, and the median counts: small ones take as long as the way
through the kernel, which other work on the machine delays. Ends with 1 if a mean of seeklab is more than 2 % from that of fio past the
cache.
"""
import statistics
import sys

import chart
import disk

DEVICE = "cheetah-36es"
OPTIONS = ["--block", "--host-scheduler", "none", "--dirty-limit", "64MiB", "--wbt", "off"]
SIZES_KIB = (4, 16, 64, 256)
LIMIT_PCT = 2.0
# Panel: name, ours, fio's.
PANELS = {
    "a": ("sequential reads", "sequential,read=100%", "read"),
    "b": ("sequential writes", "sequential,read=0%", "write"),
    "c": ("random reads", "random,read=100%", "randread"),
    "d": ("random writes", "random,read=0%", "randwrite"),
}


def measure(seeklab, panel, kib, seconds):
    """MiB/s of seeklab, of fio past the page cache and of fio through it, and mean response times in ms of the first two."""
    _, workload, of_fio = PANELS[panel]
    options = [f"--rw={of_fio}", f"--bs={kib}k", f"--runtime={seconds}", "--ioengine=psync", "--allow_file_create=0", "--randrepeat=0"]
    serve = [*OPTIONS, "--size", "8GiB" if of_fio.startswith("rand") else "512MiB"]
    with disk.emulated(seeklab, DEVICE, *serve) as (target, _):
        ours = disk.bench(seeklab, target, f"{workload},size={kib}KiB,align={kib}KiB,closed=1", "--duration", f"{seconds}s", "--interval", "0s")
    # Every program has a disk of its own, whose buffer is empty.
    with disk.emulated(seeklab, DEVICE, *serve) as (target, _):
        direct = disk.fio(f"--filename={target}", "--direct=1", *options)
    with disk.emulated(seeklab, DEVICE, *serve) as (target, _):
        buffered = disk.fio(f"--filename={target}", "--direct=0", *options)
    rates = [ours["mib_per_second"], direct["bw_bytes"] / 2**20, buffered["bw_bytes"] / 2**20]
    return rates, ours["response_mean_ms"], direct["clat_ns"]["mean"] / 1e6


def main():
    folder, seeklab, seconds = disk.arguments(30)
    panels = sys.argv[4] if len(sys.argv) > 4 else "abcd"
    rows, is_beyond = [], False
    for panel, (name, _, of_fio) in PANELS.items():
        if panel not in panels:
            continue
        is_random = of_fio.startswith("rand")
        found = []
        for kib in SIZES_KIB:
            turns = [measure(seeklab, panel, kib, seconds if is_random else max(seconds // 10, 1)) for _ in range(1 if is_random else 3)]
            rates = [statistics.median(rates) for rates in zip(*(turn[0] for turn in turns))]
            ours, direct = (statistics.median(turn[place] for turn in turns) for place in (1, 2))
            found.append(rates)
            off = 100 * (ours / direct - 1)
            is_beyond |= abs(off) > LIMIT_PCT
            rows.append([name, f"{kib} KiB", *(f"{rate:.2f}" for rate in rates), f"{ours:.3f}", f"{direct:.3f}", f"{off:+.2f} %"])
        programs = ("seeklab", "fio, direct", "fio, buffered")
        series = [(program, [(place, rates[index]) for place, rates in enumerate(found)], index > 0) for index, program in enumerate(programs)]
        title = f"{name.capitalize()} of {DEVICE} (SPEK, figure 5{panel})"
        chart.write(folder / f"figure-5{panel}.svg", title, "request size", "MiB/s", series, [f"{kib} KiB" for kib in SIZES_KIB])
    disk.print_table(["workload", "size", "MiB/s: seeklab", "fio, direct", "fio, buffered", "mean response ms: seeklab", "fio, direct",
                      "difference"], rows)
    sys.exit(is_beyond)


if __name__ == "__main__":
    main()
