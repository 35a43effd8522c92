#!/usr/bin/env python3
"""Figure 4 of SPEK (He 2005): sequential reads of a whole disk show its zones.

Reads all of `atlas10k` once in virtual time, and a part of three zones in real time, without its electronics, whose bus of
5 MB/s would hide the zones. Compares each zone's rate with the rate of its layout: the bytes of a cylinder in the time of its
turns, head switches (track skew) and the step to the next (cylinder skew).

Usage: figure-4.py [FOLDER] [SEEKLAB] [SECONDS]; needs Python 3.11. Writes figure-4.svg and the traces into FOLDER [default: .].
SECONDS are those of each zone in real time [default: 3; 0: virtual time alone]. Ends with 1 if a zone is more than 1 % off.
"""
import csv
import pathlib
import subprocess
import sys
import tomllib

import chart

DEVICE = ["--bare", "--interval", "0s", "-q"]
REQUEST_BLOCKS = 512
BLOCK = 512
LIMIT = 0.01


def zones(seeklab):
    """Returns (first block, end, MB/s of the layout) of each zone."""
    text = subprocess.run([seeklab, "devices", "atlas10k", "--toml"], check=True, capture_output=True, text=True).stdout
    device = tomllib.loads(text)
    geometry, rpm = device["geometry"], float(device["mechanics"]["rpm"].removesuffix("rpm"))
    surfaces, turn_s = geometry["surfaces"], 60 / rpm
    found, first = [], 0
    for zone in geometry["zones"]:
        sectors = zone["sectors_per_track"]
        cylinders = zone["last_cylinder"] - zone["first_cylinder"] + 1
        end = first + cylinders * surfaces * sectors - zone["spares"] - zone["reserved_blocks"]
        skews = (surfaces - 1) * zone["track_skew"] + zone["cylinder_skew"]
        rate = surfaces * sectors * BLOCK / (turn_s * (surfaces + skews / sectors)) / 1e6
        found.append((first, end, rate))
        first = end
    # The disk keeps the end of its last zone for itself.
    first, _, rate = found[-1]
    return [*found[:-1], (first, geometry["capacity_blocks"], rate)]


def measure(seeklab, target, workload, trace, *options):
    """Measures sequential reads; (block, completion in seconds) of each, in order of completion."""
    trace.unlink(missing_ok=True)
    command = [seeklab, "bench", f"{target}:atlas10k", "-w", str(workload), "--record", str(trace), *DEVICE, *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(trace, newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        reads = [(int(row["lbn"]), int(row["completion_ns"]) / 1e9) for row in rows]
    return sorted(reads, key=lambda read: read[1])


def rate(reads, first, end):
    """MB/s of the reads that lie in a zone with the one before, and their number."""
    count, seconds = 0, 0.0
    for (before, earlier), (block, completed) in zip(reads, reads[1:]):
        if first <= before < block and block + REQUEST_BLOCKS <= end:
            count, seconds = count + 1, seconds + completed - earlier
    return (count * REQUEST_BLOCKS * BLOCK / seconds / 1e6 if count else 0.0), count


def workload(folder, start, end, requests):
    """Sequential reads within shares of the disk, from a random place on."""
    path = folder / "sequential.toml"
    path.write_text(
        'kind = "synthetic"\nread = "100%"\nsize = "256KiB"\nsequential = "100%"\n'
        f'requests = {requests}\naddress = {{ distribution = "uniform", start = "{start}", end = "{end}" }}\n'
        'arrivals = { process = "closed", population = 2 }\n'
    )
    return path


def plot(path, layout, reads):
    """The rate over the time of the run, and that of the layout where the reads lie."""
    step = reads[-1][1] / 300
    measured, expected = [0] * 301, [0.0] * 301
    for block, completed in reads:
        place = min(int(completed / step), 300)
        measured[place] += REQUEST_BLOCKS * BLOCK / step / 1e6
        expected[place] = next(rate for first, end, rate in layout if first <= block < end)
    series = [(name, [((place + 0.5) * step, value) for place, value in enumerate(values[:300])], name == "layout")
              for name, values in (("measured", measured), ("layout", expected))]
    chart.write(path, "Sequential reads of all of atlas10k (SPEK, figure 4)", "time, s", "MB/s", series)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    seeklab = sys.argv[2] if len(sys.argv) > 2 else "seeklab"
    seconds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    folder.mkdir(parents=True, exist_ok=True)
    layout = zones(seeklab)
    capacity = layout[-1][1]
    reads = measure(seeklab, "model", workload(folder, 0, 1, -(-capacity // REQUEST_BLOCKS)), folder / "virtual.csv")
    plot(folder / "figure-4.svg", layout, reads)
    emulated = {}
    for zone in (0, len(layout) // 2, len(layout) - 1) if seconds else ():
        first, end, _ = layout[zone]
        place = workload(folder, first / capacity, end / capacity, 1_000_000)
        real = measure(seeklab, "emulate", place, folder / f"zone-{zone + 1}.csv", "--duration", f"{seconds}s")
        emulated[zone] = rate(real, first, end)
    print("zone  layout MB/s  virtual  off %  reads  emulated  off %  reads")
    worst = 0.0
    for zone, (first, end, expected) in enumerate(layout):
        found, count = rate(reads, first, end)
        line = f"{zone + 1:4}  {expected:11.3f}  {found:7.3f}  {100 * (found / expected - 1):5.2f}  {count:5}"
        worst = max(worst, abs(found / expected - 1))
        if zone in emulated:
            found, count = emulated[zone]
            line += f"  {found:8.3f}  {100 * (found / expected - 1):5.2f}  {count:5}"
            worst = max(worst, abs(found / expected - 1))
        print(line)
    print(f"largest difference {100 * worst:.2f} %")
    sys.exit(worst > LIMIT)


if __name__ == "__main__":
    main()
