#!/usr/bin/env python3
"""Run streams of jobs for real beside their predictions: validation/estimate/jobs-measured.csv and its plot.

    scripts/job-streams.py regress --results FOLDER     eight streams, whose processor time of the system is regressed on calls
    scripts/job-streams.py predict --results FOLDER     simulations and estimates of all configurations, written to predictions.json
    scripts/job-streams.py measure --results FOLDER [--repetitions 3] [--until HH:MM] [--only GROUP]...
    scripts/job-streams.py repeat  --results FOLDER     six runs of one stream
    scripts/job-streams.py table   --results FOLDER [--write]

A stream has 20 jobs of 200 cycles, in the two states of the notes on Lindsay and Ferrari (1975) at a tenth of their times:
50000/s and 387.6/s. The device is `berkeley-1975` with an access of 6.2 or 15 ms and 0.1 ms for each sector. Access and
sector time are those of the description. The processor time of the system is the only quantity that is fitted, by `regress`,
to streams that are not among the configurations. `measure` refuses to run what is not predicted. Its repetitions are
interleaved: each measures every configuration once, in an order that its number draws.

`main` has the configurations of which the simulation predicts at least 1.1 times the processor time. `residence`, `block` and
`sized` repeat four of them each: with a residence of one sector; over a block device; with requests that are sized at their
start, on `cheetah-36es`.

Run `seeklab calibrate` before. Idle processors are kept awake during the runs (`--pacing exact`).

regress, measure and repeat need the permission for real-time priorities, and set kernel.sched_rt_runtime_us to -1 while they run,
so that the kernel does not take the processor from the jobs for 50 ms of each second. `block` needs root, FUSE and loop devices.
Setting: SEEKLAB (the program).
"""
import argparse
import csv
import datetime
import itertools
import json
import math
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SEEKLAB = os.environ.get("SEEKLAB", str(ROOT / "target/release/seeklab"))
FOLDER = ROOT / "validation" / "estimate"
RUNTIME = pathlib.Path("/proc/sys/kernel/sched_rt_runtime_us")
JOBS, CYCLES = 20, 200
SECTORS = 2 * JOBS * CYCLES
BOUND_BY_DRIVES = 1.1
# Configurations of `main` at most.
MAIN_MAX = 42


def configuration(access_ms, buffer, threshold, policy, slots, residence=45, transfers="chained", connection="nbd",
                  device="berkeley-1975"):
    return {"device": device, "access_ms": access_ms, "buffer": buffer, "threshold": threshold, "reactivation": policy,
            "multiprogramming": slots, "residence": residence, "transfers": transfers, "connection": connection}


def name(config):
    return "-".join(str(value) for value in config.values())


GRID = [configuration(access, buffer, buffer * share // 4, policy, slots)
        for access, buffer, share, policy, slots in
        itertools.product([6.2, 15], [8, 16], [1, 2, 4], ["end", "sector"], [1, 2, 3, 4])]
# Other buffers than those of the grid.
REGRESSED = [configuration(6.2, 12, 3, "end", 2), configuration(6.2, 12, 6, "sector", 3), configuration(15, 12, 12, "end", 4),
             configuration(15, 12, 6, "sector", 2), configuration(6.2, 4, 2, "end", 3), configuration(6.2, 4, 4, "sector", 2),
             configuration(15, 24, 12, "end", 2), configuration(6.2, 24, 6, "sector", 4)]


def mix(config, system):
    residence = config["residence"]
    states = f"50000/s:50%:{residence} + 387.5968992/s:50%:{residence}"
    lines = {"kind": "jobs", "jobs": JOBS, "cycles": CYCLES, "input": states, "output": states,
             **{key: config[key] for key in ["multiprogramming", "buffer", "threshold", "reactivation", "transfers"]}}
    if system:
        lines |= {"call_time": f"{system['call_us'] * 1000:.0f}ns", "sector_time": f"{system['sector_us'] * 1000:.0f}ns"}
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())


def device(config):
    if config["device"] != "berkeley-1975":
        return [config["device"]]
    return ["berkeley-1975", "--set", f"access_time={config['access_ms']}ms", "--set", "block_time=0.1ms"]


def seeklab(verb, config, option, system=None, more=()):
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(mix(config, system))
        file.flush()
        line = [SEEKLAB, verb, *device(config), option, file.name, *more, "--json"]
        run = subprocess.run(line, capture_output=True, text=True)
    if run.returncode != 0 or not run.stdout:
        sys.exit(f"{' '.join(line)}: {run.stderr}")
    return json.loads(run.stdout)["devices"][0]


def predict(config, system):
    simulated = seeklab("simulate", config, "-w", system)["jobs"]
    estimates = seeklab("estimate", config, "-w", system)["points"][0]["estimates"]
    figures = {"simulated": simulated} | {estimate["method"]: estimate for estimate in estimates}
    return {method: {"elapsed_s": found["elapsed_s"], "calls": found["calls"]} for method, found in figures.items()}


def run(config):
    more = ["--block"] if config["connection"] == "block" else []
    figures = seeklab("run", config, "--builtin", more=["--pacing", "exact", *more])["repetitions"][0]
    jobs = figures["jobs"]
    keys = ["elapsed_s", "calls", "job_processor_s", "system_processor_s", "lost_processor_s", "scheduling"]
    return {key: jobs[key] for key in keys} | {key: figures[key] for key in ["mp1_mean_ms", "mp3_mean_ms", "ei_avg_ms"]} | {
        "load": os.getloadavg()[0]}


class WholeProcessor:
    """Lets real-time threads have all of the processor, until the end."""

    def __enter__(self):
        self.before = RUNTIME.read_text()
        for number in [signal.SIGTERM, signal.SIGHUP]:
            signal.signal(number, lambda *_: sys.exit(2))
        RUNTIME.write_text("-1\n")

    def __exit__(self, *_):
        RUNTIME.write_text(self.before)


def load(path):
    return json.loads(path.read_text())


def regress(folder):
    with WholeProcessor():
        runs = [run(config) for config in REGRESSED]
    calls, times = [found["calls"] for found in runs], [found["system_processor_s"] for found in runs]
    slope, constant = statistics.linear_regression(calls, times)
    if slope < 0:
        # A call takes no negative time: its part is below what the runs differ by.
        slope, constant = 0.0, statistics.fmean(times)
    rest = [time - constant - slope * count for count, time in zip(calls, times)]
    system = {"call_us": 1e6 * slope, "sector_us": 1e6 * constant / SECTORS,
              "rms_pct": 100 * math.sqrt(statistics.fmean(error * error for error in rest)) / statistics.fmean(times),
              "runs": [config | found for config, found in zip(REGRESSED, runs)]}
    (folder / "system.json").write_text(json.dumps(system, indent=1))
    print(f"C_s = {1e3 * constant:.1f} ms + {1e6 * slope:.1f} us a call, error {system['rms_pct']:.1f} % (rms)")


def is_bound_by_drives(prediction):
    return prediction["simulated"]["elapsed_s"] >= BOUND_BY_DRIVES * prediction["processor_alone"]["elapsed_s"]


def predict_all(folder):
    system = load(folder / "system.json")
    bound = [(config, found) for config in GRID if is_bound_by_drives(found := predict(config, system))]
    print(f"{len(bound)} of {len(GRID)} configurations are bound by their drives")
    step = max(len(bound) / MAIN_MAX, 1)
    main = [bound[int(index * step)] for index in range(min(len(bound), MAIN_MAX))]
    predictions = [{"group": "main", "configuration": config, "predictions": found} for config, found in main]
    for index, (config, _) in enumerate(main[::max(len(main) // 12, 1)][:12]):
        group, change = [("residence", {"residence": 1}), ("block", {"connection": "block"}),
                         ("sized", {"transfers": "sized_at_start", "device": "cheetah-36es"})][index % 3]
        changed = config | change
        predictions.append({"group": group, "configuration": changed, "predictions": predict(changed, system)})
    (folder / "predictions.json").write_text(json.dumps(predictions, indent=1))
    seconds = sum(row["predictions"]["simulated"]["elapsed_s"] for row in predictions)
    print(f"{len(predictions)} predictions; one repetition takes {seconds / 60:.1f} min")


def measured(folder):
    path = folder / "runs.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measure(folder, repetitions, until, only):
    predictions = [row for row in load(folder / "predictions.json") if not only or row["group"] in only]
    done = {(found["name"], found["repetition"]) for found in measured(folder)}
    with WholeProcessor(), open(folder / "runs.jsonl", "a") as out:
        for repetition in range(repetitions):
            order = random.Random(repetition).sample(predictions, len(predictions))
            for row in order:
                key = name(row["configuration"]), repetition
                if key in done:
                    continue
                if until and datetime.datetime.now(datetime.timezone.utc).strftime("%H:%M") >= until:
                    return print("the time is over")
                found = run(row["configuration"])
                out.write(json.dumps({"name": key[0], "repetition": repetition} | found) + "\n")
                out.flush()
                expected = row["predictions"]["simulated"]["elapsed_s"]
                print(f"{key[0]} {repetition}: {found['elapsed_s']:.3f} s, simulated {expected:.3f} s "
                      f"({100 * (expected / found['elapsed_s'] - 1):+.2f} %)", flush=True)


def repeat(folder):
    with WholeProcessor():
        runs = [run(configuration(6.2, 8, 4, "end", 2)) for _ in range(6)]
    (folder / "repeated.json").write_text(json.dumps(runs, indent=1))
    times = [found["elapsed_s"] for found in runs]
    print(f"{min(times):.3f} to {max(times):.3f} s, deviation {100 * statistics.stdev(times) / statistics.fmean(times):.2f} %")


METHODS = {"simulated": "simulated", "lindsay_ferrari": "published", "job_slot": "better", "processor_alone": "alone"}


def rows(folder):
    found, system = {}, load(folder / "system.json")
    for row in measured(folder):
        found.setdefault(row["name"], []).append(row)
    for row in load(folder / "predictions.json"):
        runs = found.get(name(row["configuration"]), [])
        if not runs:
            continue
        mean = {key: statistics.fmean(figures[key] for figures in runs) for key in
                ["elapsed_s", "calls", "job_processor_s", "system_processor_s", "lost_processor_s", "ei_avg_ms"]}
        deviation = statistics.stdev(figures["elapsed_s"] for figures in runs) if len(runs) > 1 else 0
        out = {"group": row["group"], **row["configuration"], "call_us": round(system["call_us"], 3),
               "sector_us": round(system["sector_us"], 3), "runs": len(runs), "measured_s": round(mean["elapsed_s"], 4),
               "deviation_pct": round(100 * deviation / mean["elapsed_s"], 3), "measured_calls": round(mean["calls"], 1),
               "job_processor_s": round(mean["job_processor_s"], 4), "system_processor_s": round(mean["system_processor_s"], 4),
               "lost_processor_s": round(mean["lost_processor_s"], 4), "ei_avg_us": round(1e3 * mean["ei_avg_ms"], 2)}
        for method, label in METHODS.items():
            predicted = row["predictions"][method]
            out[f"{label}_s"] = round(predicted["elapsed_s"], 4)
            out[f"{label}_error_pct"] = round(100 * (predicted["elapsed_s"] / mean["elapsed_s"] - 1), 3)
            if method != "processor_alone":
                out[f"{label}_calls_error_pct"] = round(100 * (predicted["calls"] / mean["calls"] - 1), 3)
        yield out


def table(folder, write):
    found = list(rows(folder))
    for group in dict.fromkeys(row["group"] for row in found):
        own = [row for row in found if row["group"] == group]
        print(f"{group}: {len(own)} configurations, {sum(row['runs'] for row in own)} runs; deviation of the runs "
              f"{statistics.fmean(row['deviation_pct'] for row in own):.2f} % on average, "
              f"{max(row['deviation_pct'] for row in own):.2f} % at worst")
        for label in METHODS.values():
            line = f"  {label:10}"
            for key, what in [(f"{label}_error_pct", "R"), (f"{label}_calls_error_pct", "calls")]:
                errors = [row[key] for row in own if key in row]
                if errors:
                    line += (f"  {what}: {statistics.fmean(errors):+6.2f} % mean, {statistics.fmean(map(abs, errors)):5.2f} % absolute, "
                             f"{max(map(abs, errors)):5.2f} % worst")
            print(line)
    if write:
        with open(FOLDER / "jobs-measured.csv", "w", newline="") as file:
            out = csv.DictWriter(file, dict.fromkeys(key for row in found for key in row), lineterminator="\n")
            out.writeheader()
            out.writerows(found)
        (FOLDER / "jobs-measured.svg").write_text(plot([row for row in found if row["group"] == "main"]))


def plot(found):
    """Predicted over measured elapsed times, both in units of C_s + C_j."""
    colours = {"simulated": "#1b7837", "better": "#2166ac", "published": "#d6604d", "alone": "#999999"}
    names = {"simulated": "simulated", "better": "better: one job slot followed exactly", "published": "published equations",
             "alone": "C_s + C_j alone"}
    size, edge = 520, 60
    points = [(row["measured_s"] / row["alone_s"], {label: row[f"{label}_s"] / row["alone_s"] for label in colours}) for row in found]
    top = max(max(x, *y.values()) for x, y in points) * 1.03
    scale = lambda value: (value - 0.9) / (top - 0.9) * (size - 2 * edge)
    x, y = lambda value: edge + scale(value), lambda value: size - edge - scale(value)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" font-family="sans-serif" font-size="12">',
             f'<rect width="{size}" height="{size}" fill="white"/>',
             f'<path d="M{edge} {edge}V{size - edge}H{size - edge}" fill="none" stroke="black"/>',
             f'<path d="M{x(0.9):.1f} {y(0.9):.1f}L{x(top):.1f} {y(top):.1f}" stroke="#ccc"/>',
             f'<text x="{size / 2}" y="{size - 18}" text-anchor="middle">measured elapsed time / (C_s + C_j)</text>',
             f'<text transform="translate(18 {size / 2}) rotate(-90)" text-anchor="middle">predicted elapsed time / (C_s + C_j)</text>']
    step = 0.25 if top < 2.5 else 0.5
    for index in range(math.ceil(1 / step), int(top / step) + 1):
        tick = index * step
        parts += [f'<text x="{x(tick):.1f}" y="{size - edge + 16}" text-anchor="middle">{tick:g}</text>',
                  f'<text x="{edge - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>']
    for index, (label, colour) in enumerate(colours.items()):
        parts += [f'<circle cx="{x(across):.1f}" cy="{y(up[label]):.1f}" r="3" fill="{colour}" fill-opacity="0.75"/>'
                  for across, up in points]
        parts += [f'<circle cx="{edge + 14}" cy="{edge + 4 + 18 * index}" r="4" fill="{colour}"/>',
                  f'<text x="{edge + 24}" y="{edge + 8 + 18 * index}">{names[label]}</text>']
    return "\n".join([*parts, "</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["regress", "predict", "measure", "repeat", "table"])
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--until", help="begin no run from this time on, UTC")
    parser.add_argument("--only", action="append", choices=["main", "residence", "block", "sized"])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    folder = options.results
    folder.mkdir(parents=True, exist_ok=True)
    match options.step:
        case "regress":
            regress(folder)
        case "predict":
            predict_all(folder)
        case "measure":
            measure(folder, options.repetitions, options.until, options.only)
        case "repeat":
            repeat(folder)
        case "table":
            table(folder, options.write)


if __name__ == "__main__":
    main()
