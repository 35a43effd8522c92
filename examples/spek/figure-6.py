#!/usr/bin/env python3
"""Figure 6 of SPEK (He 2005): a fast device under one to eight streams, until it is saturated.

Measures the device `constant`, which serves one request at a time in 100 us and in 10 us, over NBD with `seeklab bench` and with
fio's nbd engine, in the place of IoMeter, and with `emulate:`, where no server and no kernel is between. Each stream sends one read of 4 KiB at a time.

Usage: figure-6.py [FOLDER] [SEEKLAB] [SECONDS]; needs fio with its nbd engine. Writes figure-6a.svg and figure-6b.svg into FOLDER
[default: .]. Each run takes SECONDS [default: 3]. Ends with 1 if a program finds more than the device can do.
"""
import sys
import tempfile

import chart
import disk

STREAMS = range(1, 9)
PROGRAMS = ("seeklab over NBD", "fio over NBD", "seeklab, emulate:")


def measure(seeklab, folder, time, streams, seconds):
    """Requests per second and us of processor time per request of each program."""
    workload = f"random,read=100%,size=4KiB,closed={streams}"
    run = ["--duration", f"{seconds}s", "--interval", "0s"]
    device = ["--set", f"service_time={time}"]
    found = []
    with disk.emulated(seeklab, "constant", *device, "--size", "512MiB", "--nbd", f"unix:{folder}/disk.sock") as (target, _):
        ours = disk.bench(seeklab, target, workload, *run)
        found.append((ours["requests_per_second"], ours["cost"]["cpu_us_per_request"]))
        of_fio = disk.fio("--ioengine=nbd", f"--uri={target}", "--rw=randread", "--bs=4k", "--size=512m", f"--numjobs={streams}",
                          f"--runtime={seconds}")
        found.append((of_fio["iops"], of_fio["cpu_pct"] / 100 * 1e6 * streams / of_fio["iops"]))
    inside = disk.bench(seeklab, "emulate:constant", workload, *run, *device)
    found.append((inside["requests_per_second"], inside["cost"]["cpu_us_per_request"]))
    return found


def main():
    folder, seeklab, seconds = disk.arguments(3)
    rows, is_right = [], True
    for panel, time, capacity in (("a", "100us", 10_000), ("b", "10us", 100_000)):
        curves = [[] for _ in PROGRAMS]
        for streams in STREAMS:
            with tempfile.TemporaryDirectory() as sockets:
                found = measure(seeklab, sockets, time, streams, seconds)
            is_right &= all(rate <= 1.01 * capacity for rate, _ in found)
            for curve, (rate, _) in zip(curves, found):
                curve.append((streams, rate))
            rows.append([time, str(streams), *(f"{rate:,.0f}" for rate, _ in found), *(f"{cost:.1f}" for _, cost in found)])
        series = [(name, [(0, 0), *curve], index > 0) for index, (name, curve) in enumerate(zip(PROGRAMS, curves))]
        chart.write(folder / f"figure-6{panel}.svg", f"A device of {time.replace('us', ' µs')} under streams (SPEK, figure 6{panel})", "streams", "requests/s", series)
    costs = [f"us of processor time per request: {name}" if not index else name for index, name in enumerate(PROGRAMS)]
    disk.print_table(["service time", "streams", *(f"requests/s: {name}" if not index else name for index, name in enumerate(PROGRAMS)), *costs], rows)
    sys.exit(not is_right)


if __name__ == "__main__":
    main()
