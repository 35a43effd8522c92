#!/usr/bin/env python3
"""Compare estimates with simulations and write the tables of validation/estimate.

    scripts/estimate-validation.py [--binary target/release/seeklab] [--requests N] [--only laws,loads,traces,until]

laws.csv    service times of closed simulations beside those of the law
loads.csv   response times of Poisson loads, 10 to 95 % of the highest sustained rate
traces.csv  response times of traces at 30 and 60 % load
until.csv   growth by --until beside a bisection over simulations
errors.csv  largest errors by method, origin of the law and utilisation, from loads.csv and traces.csv

The traces are those of ../shared/traces and examples/office-server.csv.zst.
"""
import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "validation" / "estimate"
DISKS = ["hp-c2247a", "hp-c2249a", "hp-c2490a", "hp-c3323a", "dec-rz26", "st41601n", "barracuda", "cheetah4lp", "cheetah9lp",
         "atlas10k", "atlas-iii", "ibm18es", "cheetah-36es", "nearline-7200", "desktop-7200"]
SERVERS = ["constant", "exponential"]
SCHEDULED = [("hp-c2247a", "c-look"), ("cheetah-36es", "c-look"), ("hp-c2247a", "sptf"), ("cheetah-36es", "sptf")]
UTILISATIONS = [10, 30, 50, 70, 80, 90, 95]
TRACE_DISKS = ["cheetah-36es", "atlas10k", "nearline-7200"]
UNTIL_POISSON = [
    (["exponential"], 40, [("response_mean_ms", 40), ("response_p99_ms", 150)]),
    (["cheetah-36es"], 40, [("response_mean_ms", 20), ("response_p99_ms", 40), ("response_p99_ms", 20)]),
    (["atlas10k"], 40, [("response_mean_ms", 20), ("response_p99_ms", 60)]),
    (["nearline-7200"], 40, [("response_mean_ms", 30), ("response_p99_ms", 80)]),
    (["cheetah-36es", "--scheduler", "c-look"], 40, [("response_mean_ms", 20), ("response_p99_ms", 80)]),
    (["hp-c2247a", "--scheduler", "sptf"], 20, [("response_mean_ms", 40), ("response_p99_ms", 120)]),
]
UNTIL_TRACES = [("response_mean_ms", 20), ("response_p99_ms", 200)]


class Seeklab:
    def __init__(self, binary):
        self.binary = binary

    def json(self, *arguments):
        run = subprocess.run([self.binary, *arguments, "--json"], capture_output=True, text=True)
        if not run.stdout:
            sys.exit(f"{' '.join(arguments)}: {run.stderr}")
        return json.loads(run.stdout)["devices"][0]


def pct(found, reference):
    return round(100 * (found / reference - 1), 3) if found is not None and reference else ""


def write(name, rows):
    with open(FOLDER / name, "w", newline="") as file:
        columns = dict.fromkeys(key for row in rows for key in row)
        out = csv.DictWriter(file, columns, lineterminator="\n")
        out.writeheader()
        out.writerows(rows)
    print(f"{name}: {len(rows)} rows")


def laws(seeklab, requests):
    rows = []
    for disk in DISKS:
        for bare in [[], ["--bare"]]:
            for kib in [4, 8, 64, 256]:
                line = f"random,size={kib}KiB,read=100%,requests={requests}"
                device = [disk, *bare]
                simulated = seeklab.json("simulate", *device, "-w", line, "--closed", "1")
                estimated = seeklab.json("estimate", *device, "-w", line, "--closed", "1")
                rows.append({
                    "device": disk, "bare": bool(bare), "size_kib": kib, "scheduler": "fcfs", "outstanding": 1,
                    "origin": estimated["law"]["origin"],
                    "simulated_mean_ms": simulated["response_mean_ms"], "law_mean_ms": estimated["response_mean_ms"],
                    "error_mean_pct": pct(estimated["response_mean_ms"], simulated["response_mean_ms"]),
                    "simulated_sd_ms": simulated["response_sd_ms"], "law_sd_ms": estimated["service_sd_ms"],
                    "error_sd_pct": pct(estimated["service_sd_ms"], simulated["response_sd_ms"]),
                })
    for disk, scheduler in SCHEDULED:
        for outstanding in [1, 2, 5, 17, 65]:
            line = f"random,size=8KiB,read=100%,requests={requests}"
            device = [disk, "--scheduler", scheduler]
            simulated = seeklab.json("simulate", *device, "-w", line, "--closed", str(outstanding))
            estimated = seeklab.json("estimate", *device, "-w", line, "--closed", str(outstanding))
            throughput = simulated["requests_per_second"]
            rows.append({
                "device": disk, "bare": False, "size_kib": 8, "scheduler": scheduler, "outstanding": outstanding,
                "origin": estimated["law"]["origin"],
                "simulated_mean_ms": round(1000 / throughput, 6), "law_mean_ms": estimated["service_mean_ms"],
                "error_mean_pct": pct(estimated["service_mean_ms"], 1000 / throughput),
                "simulated_sd_ms": "", "law_sd_ms": "", "error_sd_pct": "",
            })
    write("laws.csv", rows)


def row_of(name, load, pct_of, estimated, simulated):
    return {
        "device": name, "load": load, "load_pct": pct_of, "method": estimated["method"],
        "origin": estimated["law"]["origin"], "utilisation_pct": estimated["utilisation_pct"],
        "simulated_mean_ms": simulated["response_mean_ms"], "estimated_mean_ms": estimated["response_mean_ms"],
        "error_mean_pct": pct(estimated["response_mean_ms"], simulated["response_mean_ms"]),
        "simulated_p99_ms": simulated["response_p99_ms"], "estimated_p99_ms": estimated["response_p99_ms"],
        "error_p99_pct": pct(estimated["response_p99_ms"], simulated["response_p99_ms"]),
    }


def loads(seeklab, requests):
    rows = []
    devices = [[name] for name in SERVERS + DISKS] + [[disk, "--scheduler", order] for disk, order in SCHEDULED]
    for device in devices:
        first = seeklab.json("estimate", *device, "-w", "random,size=8KiB,read=100%,poisson=1/s")
        for share in UTILISATIONS:
            rate = round(first["saturation_per_s"] * share / 100, 3)
            count = requests * (1 if share < 70 else 4 if share < 90 else 10)
            line = f"random,size=8KiB,read=100%,poisson={rate}/s,requests={count}"
            estimated = seeklab.json("estimate", *device, "-w", line)
            simulated = seeklab.json("simulate", *device, "-w", line)
            rows.append(row_of(" ".join(device), "reads of 8 KiB", share, estimated, simulated))
    write("loads.csv", rows)


def trace_loads():
    """Name, workload line and options of each trace. A trace of several devices stands for its first."""
    shared = pathlib.Path(os.environ.get("SEEKLAB_SHARED", ROOT.parent / "shared")) / "traces"
    wrap = ["--beyond", "wrap"]
    return [
        ("hpl-srt-ajw, device 0", f"replay,trace={shared / 'hpl-srt-ajw/ajw.1week.srt.zst'},device=0", wrap),
        ("cloudphysics-sample", str(shared / "cloudphysics-sample/cloudPhysicsIO.vscsi.zst"), wrap),
        ("fio-iolog-v3", str(shared / "fio-iolog-v3/oltp-poisson.iolog.zst"), wrap),
        ("office-server", str(ROOT / "examples/office-server.csv.zst"), wrap),
    ]


def traces(seeklab, _requests):
    rows = []
    for name, line, options in trace_loads():
        for disk in TRACE_DISKS:
            arguments = [disk, "-w", line, *options]
            for share in [30, 60]:
                grown = seeklab.json("estimate", *arguments, "--until", f"utilisation_pct<={share}")
                scaled = [*arguments, "--scaled", f"{grown['until']['growth']:.6f}"]
                estimated = seeklab.json("estimate", *scaled)
                simulated = seeklab.json("simulate", *scaled)
                row = row_of(disk, name, share, estimated, simulated)
                for beside in estimated["beside"]:
                    row[f"{beside['method']}_mean_ms"] = beside["response_mean_ms"]
                rows.append(row)
                print(*row.values(), sep=", ", flush=True)
    write("traces.csv", rows)


def bisected(seeklab, figure, bound, simulate):
    """The greatest factor at which the simulated figure stays within the bound."""
    def is_within(factor):
        found = simulate(factor)
        return not found["saturated"] and found[figure] <= bound
    low = high = 1.0
    if is_within(1.0):
        while is_within(high * 2):
            high *= 2
        low, high = high, high * 2
    else:
        while not is_within(low / 2):
            low /= 2
        low, high = low / 2, low
    while high / low > 1.002:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if is_within(middle) else (low, middle)
    return (low * high) ** 0.5


def until(seeklab, requests):
    rows = []

    def compare(device, load, figure, bound, line, simulate):
        found = seeklab.json("estimate", *device, *line, "--until", f"{figure}<={bound}")["until"]
        growth = bisected(seeklab, figure, bound, simulate)
        inside = found["growth_min"] is not None and found["growth_min"] <= growth <= found["growth_max"]
        rows.append({
            "device": " ".join(device), "load": load, "bound": found["bound"], "bisected_growth": round(growth, 5),
            "estimated_growth": found["growth"], "error_pct": pct(found["growth"], growth),
            "growth_min": found["growth_min"], "growth_max": found["growth_max"], "inside": inside,
        })
        print(*rows[-1].values(), sep=", ", flush=True)

    count = 8 * requests
    for device, rate, bounds in UNTIL_POISSON:
        line = lambda rate: f"random,size=8KiB,read=100%,poisson={rate:.4f}/s,requests={count}"
        simulate = lambda factor: seeklab.json("simulate", *device, "-w", line(rate * factor))
        for figure, bound in bounds:
            compare(device, f"poisson={rate}/s", figure, bound, ["-w", line(rate)], simulate)
    for name, line, options in trace_loads():
        for disk in TRACE_DISKS:
            arguments = ["-w", line, *options]
            simulate = lambda factor: seeklab.json("simulate", disk, *arguments, "--scaled", f"{factor:.8f}")
            for figure, bound in UNTIL_TRACES:
                compare([disk], name, figure, bound, arguments, simulate)
    write("until.csv", rows)
    for kind, of in [("Poisson", lambda row: row["load"].startswith("poisson")), ("traces", lambda row: not row["load"].startswith("poisson"))]:
        errors_of = [abs(row["error_pct"]) for row in rows if of(row)]
        inside = sum(row["inside"] for row in rows if of(row))
        print(f"{kind}: largest error {max(errors_of)} %, inside the interval {inside} of {len(errors_of)}")


def errors():
    groups = {}
    for name in ["loads.csv", "traces.csv"]:
        if not (FOLDER / name).exists():
            continue
        for row in csv.DictReader(open(FOLDER / name)):
            top = 80 if float(row["utilisation_pct"]) <= 80 else 100
            group = groups.setdefault((row["method"], row["origin"], top), ([], []))
            for column, errors_of in zip(["error_mean_pct", "error_p99_pct"], group):
                if row[column]:
                    errors_of.append(abs(float(row[column])))
    order = sorted(groups.items())
    largest = lambda errors_of: round(max(errors_of), 2) if errors_of else ""
    rows = [{"method": method, "origin": origin, "utilisation_pct_max": top,
             "response_mean_pct": largest(group[0]), "response_p99_pct": largest(group[1])}
            for (method, origin, top), group in order]
    write("errors.csv", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(ROOT / "target/release/seeklab"))
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--only", default="laws,loads,traces,until")
    options = parser.parse_args()
    seeklab = Seeklab(options.binary)
    parts = {"laws": laws, "loads": loads, "traces": traces, "until": until}
    for part in options.only.split(","):
        parts[part](seeklab, options.requests)
    errors()


if __name__ == "__main__":
    main()
