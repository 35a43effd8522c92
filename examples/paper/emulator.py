#!/usr/bin/env python3
"""What the emulator itself can do: three experiments of Griffin 2004, chapter 5, each with a table and a chart.

    examples/paper/emulator.py lookahead   the error between emulator and model against the lookahead (figures 5.8, 5.13)
    examples/paper/emulator.py rate        the highest rate and data rate without missed deadlines (section 5.1.2)
    examples/paper/emulator.py cost        what the emulator takes from the host's programs (section 5.1.2)

Each takes one to two minutes on a machine that does nothing else, prints a Markdown table, and leaves NAME.json and (the
first two) a chart, NAME.svg, in the current folder. Needs fio with its nbd engine; root for the block device of `rate`, without which
that frontend is left out.
"""

import contextlib
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
SEEKLAB = os.environ.get("SEEKLAB", str(TARGET / "seeklab"))


@contextlib.contextmanager
def served(device, *flags):
    """Serves a device; yields where it is, and a dictionary that holds its document afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        if "--block" not in flags:
            flags = ["--nbd", f"unix:{folder}/nbd", *flags]
        server = subprocess.Popen([SEEKLAB, "serve", *device, "--json", *flags], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        document = {}
        try:
            for line in server.stderr:
                if " is ready: " in line:
                    yield line.split(" is ready: ")[1].strip(), document
                    break
            else:
                sys.exit(f"`seeklab serve {' '.join(device)}` did not become ready")
        finally:
            server.send_signal(signal.SIGTERM)
            out, _ = server.communicate()
        document.update(json.loads(out))


def fio(place, *flags):
    """Runs fio against a place; returns its only job."""
    target = ["--ioengine=nbd", f"--uri={place}"] if place.startswith("nbd") else \
        ["--ioengine=libaio", "--direct=1", f"--filename={place}"]
    out = subprocess.run(["fio", "--name=x", "--output-format=json", *target, *flags], check=True,
                         capture_output=True, text=True).stdout
    return json.loads(out[out.index("{"):])["jobs"][0]


def ticks(most):
    """Round numbers from zero to at least `most`."""
    power = 10 ** math.floor(math.log10(most))
    step = next(power * factor / 5 for factor in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if power * factor >= most)
    return [step * index for index in range(6)]


def chart(path, title, x_label, y_label, lines, logarithmic=False):
    """Draws lines of (x, y) with names; y by decades if `logarithmic`."""
    width, height, left, top, right, bottom = 720, 380, 70, 40, 150, 50
    colours = ["#4269d0", "#efb118", "#ff725c", "#3ca951"]
    xs = ticks(max(x for _, points in lines for x, _ in points))
    most, least = (choose(y for _, points in lines for _, y in points) for choose in (max, min))
    if logarithmic:
        ys = [10.0**power for power in range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)]
        share = lambda y: math.log(y / ys[0]) / math.log(ys[-1] / ys[0])
    else:
        ys = ticks(most)
        share = lambda y: y / ys[-1]
    at_x = lambda x: left + x / xs[-1] * (width - left - right)
    at_y = lambda y: height - bottom - share(y) * (height - top - bottom)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>', f'<text x="{left}" y="22" font-size="15">{title}</text>']
    for y in ys:
        out += [f'<line x1="{left}" x2="{width - right}" y1="{at_y(y):.1f}" y2="{at_y(y):.1f}" stroke="#ddd"/>',
                f'<text x="{left - 6}" y="{at_y(y) + 4:.1f}" text-anchor="end">{y:.4g}</text>']
    out += [f'<text x="{at_x(x):.1f}" y="{height - bottom + 16}" text-anchor="middle">{x:.4g}</text>' for x in xs]
    out += [f'<text x="{(left + width - right) / 2}" y="{height - 12}" text-anchor="middle">{x_label}</text>',
            f'<text transform="translate(16 {(top + height - bottom) / 2}) rotate(-90)" text-anchor="middle">{y_label}</text>']
    for index, (name, points) in enumerate(lines):
        colour, path_of = colours[index], " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in points)
        out += [f'<polyline points="{path_of}" fill="none" stroke="{colour}" stroke-width="2"/>',
                f'<text x="{width - right + 12}" y="{top + 14 + 18 * index}" fill="{colour}">{name}</text>']
        out += [f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3" fill="{colour}"/>' for x, y in points]
    Path(path).write_text("\n".join([*out, "</svg>"]) + "\n")


def completion_errors(trace):
    """MP2 completion less the model's, of every read of a trace, in us, ascending."""
    errors = []
    with open(trace) as rows:
        rows = (row for row in rows if not row.startswith("#"))
        columns = next(rows).strip().split(",")
        left, done, op = (columns.index(name) for name in ("mp2_completion_ns", "completion_ns", "op"))
        for row in rows:
            cells = row.strip().split(",")
            if cells[op] == "read":
                errors.append((int(cells[left]) - int(cells[done])) / 1e3)
    return sorted(errors)


def lookahead():
    """8-block reads of one place, one at a time, as for his figures 5.8 and 5.13."""
    results = []
    settings = [("run synchronously", ["--mode", "synchronous", "--lookahead", f"{us}us"], us) for us in range(0, 61, 5)]
    settings += [("with rollback", ["--mode", "rollback"], None), ("run to completion", ["--mode", "run-to-completion"], None)]
    for pacing in ("exact", "frugal"):
        for name, flags, us in settings:
            with tempfile.TemporaryDirectory() as folder:
                trace = f"{folder}/t.csv"
                device = ["cheetah-36es", "--bare", "--size", "1GiB"]
                with served(device, "--uncalibrated", "--pacing", pacing, "--record", trace, *flags) as (place, _):
                    fio(place, "--rw=read", "--bs=4k", "--size=4k", "--io_size=1g", "--offset=512m",
                        "--number_ios=200", "--thinktime=1000")
                errors = completion_errors(trace)
            median, high = statistics.median(errors), errors[int(0.9 * len(errors))]
            rms = (sum(error**2 for error in errors[: int(0.99 * len(errors))]) / len(errors)) ** 0.5
            results.append({"pacing": pacing, "mode": name, "lookahead_us": us, "p50_us": median, "p90_us": high,
                            "rms_lowest_99pct_us": rms})
    print("| mode | lookahead µs | exact: p50 µs, p90, rms of the lowest 99 % | frugal |")
    print("| --- | --- | --- | --- |")
    cell = lambda r: f"{r['p50_us']:.2f}, {r['p90_us']:.2f}, {r['rms_lowest_99pct_us']:.2f}"
    half = len(results) // 2
    for exact, frugal in zip(results[:half], results[half:]):
        us = "–" if exact["lookahead_us"] is None else exact["lookahead_us"]
        print(f"| {exact['mode']} | {us} | {cell(exact)} | {cell(frugal)} |")
    line = lambda pacing, key: [(r["lookahead_us"], r[key]) for r in results
                                if r["pacing"] == pacing and r["lookahead_us"] is not None]
    chart("lookahead.svg", "Reply at MP2 less the model's completion, run synchronously", "lookahead, us", "us",
          [(f"{pacing}, {key[:3]}", line(pacing, key)) for pacing in ("exact", "frugal") for key in ("p50_us", "p90_us")],
          logarithmic=True)
    return results


def rate():
    """A server with a constant service time, kept busy by 32 requests: how short can it be?"""
    results, lines = [], []
    frontends = ["nbd"] + (["block"] if os.geteuid() == 0 else [])
    for frontend in frontends:
        for size, times in (("4k", (1000, 300, 100, 50, 30, 20, 15, 10, 8, 6)), ("256k", (1000, 500, 300, 200, 150, 100, 70))):
            points = []
            for us in times:
                device = ["constant", "--set", f"service_time={us}us", "--size", "1GiB"]
                flags = ["--pacing", "exact", *(["--block"] if frontend == "block" else [])]
                with served(device, *flags) as (place, document):
                    job = fio(place, "--rw=randread", f"--bs={size}", "--size=1g", "--iodepth=32", "--time_based", "--runtime=2")
                missed = 100 * sum(document["deadline_misses"].values()) / document["requests"]
                iops = job["read"]["iops"]
                row = {"frontend": frontend, "size": size, "service_us": us, "iops": iops, "wanted_iops": 1e6 / us,
                       "mb_per_s": iops * (4 if size == "4k" else 256) * 1024 / 1e6, "missed_pct": missed,
                       "lateness_p99_us": document["lateness_p99_us"]}
                row["sustained"] = missed <= 2 and iops >= 0.97 * row["wanted_iops"]
                results.append(row)
                points.append((iops / 1e3, missed))
            if size == "4k":
                lines.append((frontend, points))
    print("| frontend, size | required, IOPS | reached | MB/s | missed by more than 20 µs | lateness p99 µs | sustained |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for row in results:
        print(f"| {row['frontend']}, {row['size']}iB | {row['wanted_iops']:,.0f} | {row['iops']:,.0f} | {row['mb_per_s']:,.0f} |"
              f" {row['missed_pct']:.2f} % | {row['lateness_p99_us']:.1f} | {'yes' if row['sustained'] else 'no'} |")
    chart("rate.svg", "Deadlines missed against the rate, 4 KiB reads", "thousand requests per second", "missed by more than 20 us, %", lines)
    return results


# Counts how often a processor gets through a little work in a given time.
WORK = "import sys,time\nn=0\nend=time.monotonic()+float(sys.argv[1])\nwhile time.monotonic()<end:\n sum(range(2000)); n+=1\nprint(n)"


def work(seconds):
    """Work done by a program on every processor at once."""
    workers = [subprocess.Popen([sys.executable, "-c", WORK, str(seconds)], stdout=subprocess.PIPE, text=True)
               for _ in range(os.cpu_count())]
    return sum(int(worker.communicate()[0]) for worker in workers)


def cost():
    """A program that computes on every processor, beside a disk that idles and one that is busy."""
    seconds, turns, device = 4, 3, ["cheetah-36es", "--size", "1GiB"]
    shares, use = {}, {}
    for _ in range(turns):
        alone = work(seconds)
        for pacing in ("exact", "balanced", "frugal"):
            for load in ("idle", "busy"):
                began = time.monotonic()
                with served(device, "--pacing", pacing) as (place, document):
                    # A disk with one request after the other; the client takes processor time too.
                    client = load == "busy" and subprocess.Popen(
                        ["fio", "--name=x", "--ioengine=nbd", f"--uri={place}", "--rw=randread", "--bs=4k", "--size=1g",
                         "--time_based", f"--runtime={seconds + 2}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    time.sleep(0.5)
                    done = work(seconds)
                    pid = re.search(r"\d+", Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text())
                    status = Path(f"/proc/{pid[0]}/status").read_text() if pid else ""
                    rss = re.search(r"VmRSS:\s+(\d+)", status)
                    if client:
                        client.kill()
                        client.wait()
                key = (pacing, load)
                shares.setdefault(key, []).append(100 * done / alone)
                cpu = document["emulator_cpu_s"] / (time.monotonic() - began)
                use.setdefault(key, []).append((100 * cpu, int(rss[1]) / 1024 if rss else 0.0))
    results = []
    print("| pacing | disk | the program's work, of alone | emulator's thread, of one processor | memory MiB |")
    print("| --- | --- | --- | --- | --- |")
    for (pacing, load), values in shares.items():
        cpu, memory = (statistics.median(column) for column in zip(*use[pacing, load]))
        row = {"pacing": pacing, "disk": load, "work_pct": statistics.median(values), "work_min_pct": min(values),
               "work_max_pct": max(values), "emulator_cpu_pct": cpu, "memory_mib": memory}
        results.append(row)
        print(f"| {pacing} | {load} | {row['work_pct']:.1f} % ({row['work_min_pct']:.1f} to {row['work_max_pct']:.1f}) |"
              f" {cpu:.1f} % | {memory:.0f} |")
    return results


EXPERIMENTS = {"lookahead": lookahead, "rate": rate, "cost": cost}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in EXPERIMENTS:
        sys.exit(__doc__.strip())
    if "SEEKLAB" not in os.environ:
        subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=ROOT, check=True)
    name = sys.argv[1]
    Path(f"{name}.json").write_text(json.dumps(EXPERIMENTS[name](), indent=1) + "\n")
