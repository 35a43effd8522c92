#!/usr/bin/env python3
"""Compare estimates with simulations and write the tables of validation/estimate.

    scripts/estimate-validation.py [--binary target/release/seeklab] [--requests N]
        [--only laws,loads,writes,mixes,thinking,closed,traces,predictions,until,coverage] [--device D]

laws.csv    service times of closed simulations beside those of the law: reads, and reads with 40 and 50 % writes on disks that write
            through
loads.csv   response times of Poisson loads of reads, 10 to 95 % of the highest sustained rate
writes.csv  response times of Poisson loads of reads and writes; the mean is that of the reads
mixes.csv   response times of all requests of Poisson loads: half reads, half writes, on disks with and without write-back; on a
            clone of a recorded trace; on disks with a fault that delays requests; reads in batches; two classes of priority;
            closed reads over three devices
traces.csv  response times of traces at 30 and 60 % load
predictions.csv  the same by the recursion with the services of the run at the other load, written here a second time
until.csv   growth by --until beside a bisection over simulations; of Poisson loads with the random variation of the simulations
coverage.csv  how often the intervals of --until have the growth of a load that is known better than from their sample: bursts
            drawn with other seeds beside a bisection over long simulations, and halves of traces beside each other
thinking.csv  response times of populations with think time
closed.csv  response times of traces that populations without think time replay
errors.csv  largest errors by method, origin of the law and utilisation, from the tables of laws, loads, writes, mixes, traces and
            populations; they contain the random variation of the simulations

The traces are those of ../shared/traces and examples/office-server.csv.zst.
"""
import argparse
import csv
import functools
import heapq
import json
import math
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "validation" / "estimate"
DISKS = ["hp-c2247a", "hp-c2249a", "hp-c2490a", "hp-c3323a", "dec-rz26", "st41601n", "barracuda", "cheetah4lp", "cheetah9lp",
         "atlas10k", "atlas-iii", "ibm18es", "cheetah-36es", "nearline-7200", "desktop-7200"]
LAW_DISKS = [*DISKS, "cheetah-36es-50krpm", "superdisk"]
# Disks whose writes go through to the media.
THROUGH_DISKS = ["hp-c2247a", "hp-c2249a", "hp-c2490a", "hp-c3323a", "dec-rz26", "st41601n"]
SERVERS = ["constant", "exponential"]
SCHEDULED = [("hp-c2247a", "c-look"), ("cheetah-36es", "c-look"), ("hp-c2247a", "sptf"), ("cheetah-36es", "sptf")]
UTILISATIONS = [10, 30, 50, 70, 80, 90, 95]
WRITE_DISKS = ["cheetah-36es", "atlas10k", "nearline-7200", "hp-c2490a", "cheetah9lp", "barracuda", "ibm18es", "atlas-iii",
               "cheetah4lp", "desktop-7200"]
THINKING_DISKS = ["constant", "exponential", "cheetah-36es", "atlas10k", "hp-c2247a", "nearline-7200"]
SEEDS = [1, 2, 3, 4]
LAW_SEEDS = [1, 2, 3, 4]
# Shares of reads of the mixed requests of the laws, in percent.
MIXED_READS = [50, 60]
LAYERS = {
    "queue over cheetah-36es": "kind = 'queue'\nscheduler = 'fcfs'\n[device]\nbase = 'cheetah-36es'\n",
    "limit over cheetah-36es": "kind = 'limit'\n[[requests]]\nrate = '500/s'\nburst = 1000\n[device]\nbase = 'cheetah-36es'\n",
    "tight limit over cheetah-36es": "kind = 'limit'\n[[requests]]\nrate = '60/s'\nburst = 10\n[device]\nbase = 'cheetah-36es'\n",
    "tight limit over constant": "kind = 'limit'\n[[requests]]\nrate = '60/s'\nburst = 2\n[device]\nbase = 'constant'\n",
}
LAYERS.update({f"byte limit over {disk}": f"kind = 'limit'\n[[bytes]]\nrate = '{rate}'\nburst = '{burst}'\n[device]\nbase = '{disk}'\n"
               for disk, rate, burst in [("cheetah-36es", "2MB/s", "300kB"), ("constant", "2MB/s", "64KiB")]})
LAYERS.update({f"write limit over hp-c2247a, burst of {burst}": f"kind = 'limit'\nof = 'writes'\n[[requests]]\nrate = '{rate}/s'\n"
               f"burst = {burst}\n[device]\nbase = 'hp-c2247a'\n" for rate, burst in [(30, 5), (20, 10)]})
READS = "random,size=8KiB,read=100%"
# Layers whose loads have several lengths.
READS_OF = dict.fromkeys([name for name in LAYERS if name.startswith("byte limit")], "random,size=8KiB:60+64KiB:40,read=100%")
MIX = "random,size=8KiB,read=50%"
READS_OF |= dict.fromkeys([name for name in LAYERS if name.startswith("write limit")], MIX)
LOAD_NAMES = {READS: "reads of 8 KiB", MIX: "half reads of 8 KiB"}
MIX_DISKS = ["cheetah-36es", "ibm18es", "nearline-7200"]
DELAYS = [("delays of the reply", "delay,add=20ms,probability=1%"), ("delays of the device", "delay,add=20ms,probability=1%,holds=device"),
          ("long delays of the reply", "delay,add=50ms,probability=2%")]
DELAYED_DISKS = ["cheetah-36es", "nearline-7200"]
# End of the names of cases whose arrivals are drawn.
DRAWN = "drawn arrivals"
DRAWN_DISKS = ["exponential", "cheetah-36es", "nearline-7200"]
DRAWN_ORDERS = [("cheetah-36es", "c-look"), ("ibm18es", "c-look"), ("barracuda", "sptf")]
MIX_LOADS = [10, 30, 50, 70, 80, 90]
ONLY_DEVICES = []
TRACE_DISKS = ["cheetah-36es", "atlas10k", "nearline-7200"]
REORDERING_DISKS = ["nearline-7200"]
CLOSED_DEVICES = ["constant", "exponential", "hp-c2247a", "cheetah-36es", "atlas10k", "nearline-7200"]
CLOSED_REQUESTS = 20_000
UNTIL_POISSON = [
    (["exponential"], 40, [("response_mean_ms", 40), ("response_p99_ms", 150)]),
    (["cheetah-36es"], 40, [("response_mean_ms", 20), ("response_p99_ms", 40), ("response_p99_ms", 20)]),
    (["atlas10k"], 40, [("response_mean_ms", 20), ("response_p99_ms", 60)]),
    (["nearline-7200"], 40, [("response_mean_ms", 30), ("response_p99_ms", 80)]),
    (["cheetah-36es", "--scheduler", "c-look"], 40, [("response_mean_ms", 20), ("response_p99_ms", 80)]),
    (["hp-c2247a", "--scheduler", "sptf"], 20, [("response_mean_ms", 40), ("response_p99_ms", 120)]),
]
UNTIL_TRACES = [("response_mean_ms", 20), ("response_p99_ms", 200)]
COVERAGE_SEEDS = range(1, 41)
COVERAGE_BURSTS = [
    ("exponential", "burst=20,within=2ms,gap=400ms", [("response_mean_ms", 120), ("response_p99_ms", 600)]),
    ("cheetah-36es", "burst=20,within=2ms,gap=400ms", [("response_mean_ms", 120), ("response_p99_ms", 600)]),
    ("nearline-7200", "burst=20,within=2ms,gap=400ms", [("response_mean_ms", 120), ("response_p99_ms", 600)]),
]


class Seeklab:
    def __init__(self, binary):
        self.binary = binary

    def json(self, *arguments):
        run = subprocess.run([self.binary, *arguments, "--json"], capture_output=True, text=True)
        if not run.stdout:
            sys.exit(f"{' '.join(arguments)}: {run.stderr}")
        return json.loads(run.stdout)["devices"][0]

    def until(self, device, line, options, bound):
        """The growth of a load, `None` if no load meets the bound or none reaches it."""
        run = subprocess.run([self.binary, "estimate", device, "-w", line, *options, "--until", bound, "--json"],
                             capture_output=True, text=True)
        until = json.loads(run.stdout)["devices"][0]["until"] if run.stdout else None
        return until if until and until["growth"] is not None else None


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
    count = requests * len(LAW_SEEDS)

    def closed(device, line, outstanding):
        runs = [seeklab.json("simulate", *device, "-w", f"{line},requests={requests}", "--closed", str(outstanding),
                             "--seed", str(seed)) for seed in LAW_SEEDS]
        mean = lambda key: sum(run[key] for run in runs) / len(runs)
        return mean("response_mean_ms"), mean("response_sd_ms"), 1000 / mean("requests_per_second")

    cases = [(disk, bare, kib, 100) for disk in LAW_DISKS for bare in [False, True] for kib in [4, 8, 64, 256]]
    cases += [(disk, False, kib, reads) for disk in THROUGH_DISKS for kib in [8, 64] for reads in MIXED_READS]
    for disk, bare, kib, reads in [case for case in cases if not ONLY_DEVICES or case[0] in ONLY_DEVICES]:
        line, device = f"random,size={kib}KiB,read={reads}%", [disk, *(["--bare"] if bare else [])]
        mean, deviation, _ = closed(device, line, 1)
        estimated = seeklab.json("estimate", *device, "-w", line, "--closed", "1")
        rows.append({
            "device": disk, "bare": bare, "reads_pct": reads, "size_kib": kib, "scheduler": "fcfs", "outstanding": 1,
            "origin": estimated["law"]["origin"], "requests": count, "seeds": len(LAW_SEEDS),
            "simulated_mean_ms": round(mean, 6), "law_mean_ms": estimated["response_mean_ms"],
            "error_mean_pct": pct(estimated["response_mean_ms"], mean),
            "simulated_se_pct": round(100 * deviation / mean / count ** 0.5, 3),
            "simulated_sd_ms": round(deviation, 6), "law_sd_ms": estimated["service_sd_ms"],
            "error_sd_pct": pct(estimated["service_sd_ms"], deviation),
        })
    for disk, scheduler in [pair for pair in SCHEDULED if not ONLY_DEVICES or pair[0] in ONLY_DEVICES]:
        for outstanding in [2, 3, 5, 9, 17, 33, 65]:
            line, device = "random,size=8KiB,read=100%", [disk, "--scheduler", scheduler]
            _, _, between = closed(device, line, outstanding)
            estimated = seeklab.json("estimate", *device, "-w", line, "--closed", str(outstanding))
            rows.append({
                "device": disk, "bare": False, "reads_pct": 100, "size_kib": 8, "scheduler": scheduler, "outstanding": outstanding,
                "origin": estimated["law"]["origin"], "requests": count, "seeds": len(LAW_SEEDS),
                "simulated_mean_ms": round(between, 6), "law_mean_ms": estimated["service_mean_ms"],
                "error_mean_pct": pct(estimated["service_mean_ms"], between),
            })
    merge("laws.csv", rows)


def simulated_over_seeds(seeklab, device, line, requests):
    """Figures of runs with several seeds, each mean over the runs, with the standard error of the mean response time."""
    runs = [seeklab.json("simulate", *device, "-w", f"{line},requests={requests // len(SEEDS)}", "--seed", str(seed))
            for seed in SEEDS]
    of = lambda run: {"mean": run["response_mean_ms"], "p99": run["response_p99_ms"],
                      "half_width": run["response_mean_half_width_95_ms"] or 0.0,
                      "read_mean": run.get("read_response_mean_ms"), "read_p99": run.get("read_response_p99_ms"),
                      "write_mean": run.get("write_response_mean_ms"),
                      **{name: ((run.get("by_criticality") or {}).get(name) or {}).get("response_mean_ms")
                         for name in ["time_critical", "time_noncritical"]}}
    runs = [of(run) for run in runs]
    mean = lambda key: sum(run[key] for run in runs) / len(runs) if all(run[key] is not None for run in runs) else None
    figures = {key: mean(key) for key in runs[0]}
    # Half widths of 95 % intervals by batch means, of independent runs. Percentiles have only the runs.
    figures["se"] = sum((run["half_width"] / 1.96) ** 2 for run in runs) ** 0.5 / len(runs)
    for name in [name for name in ["time_critical", "time_noncritical"] if figures[name] is not None]:
        figures[f"{name}_se_pct"] = 100 * standard_error([run[name] for run in runs]) / figures[name]
    of_reads = "read_p99" if figures["read_p99"] is not None else "p99"
    figures["p99_se_pct"] = 100 * standard_error([run[of_reads] for run in runs]) / figures[of_reads]
    return figures


def standard_error(values):
    return statistics.stdev(values) / len(values) ** 0.5


def compared(name, load, estimated, simulated, count, of=""):
    """The columns that a row of every table of simulations with several seeds begins with; `of` an operation ("read_") or all."""
    mean = estimated[f"{of}response_mean_ms"]
    return {
        "device": name, **load, "method": estimated["method"],
        "origin": estimated["law"]["origin"], "utilisation_pct": estimated["utilisation_pct"],
        "requests": count, "seeds": len(SEEDS), "simulated_mean_ms": round(simulated[f"{of}mean"], 6),
        "simulated_se_pct": round(100 * simulated["se"] / simulated["mean"], 3),
        "estimated_mean_ms": mean, "error_mean_pct": pct(mean, simulated[f"{of}mean"]),
    }


def compared_p99(estimated, simulated, of=""):
    """The columns of the 99th percentile."""
    p99 = estimated[f"{of}response_p99_ms"]
    return {"simulated_p99_ms": round(simulated[f"{of}p99"], 6), "estimated_p99_ms": p99, "error_p99_pct": pct(p99, simulated[f"{of}p99"])}


def loads(seeklab, requests):
    rows = []
    for name, device in load_devices():
        reads = READS_OF.get(name, READS)
        first = seeklab.json("estimate", *device, "-w", f"{reads},poisson=1/s")
        for share in UTILISATIONS:
            rate = round(first["saturation_per_s"] * share / 100, 3)
            count = requests * (4 if share < 70 else 10 if share < 90 else 40)
            line = f"{reads},poisson={rate}/s"
            estimated = seeklab.json("estimate", *device, "-w", line)
            simulated = simulated_over_seeds(seeklab, device, line, count)
            load = {"load": LOAD_NAMES.get(reads, "reads of 8 and 64 KiB"), "load_pct": share}
            rows.append(compared(name, load, estimated, simulated, count) | compared_p99(estimated, simulated)
                        | {"simulated_p99_se_pct": round(simulated["p99_se_pct"], 3)})
            print(*rows[-1].values(), sep=", ", flush=True)
    merge("loads.csv", rows)


def load_devices():
    """Names and arguments of every device of the table: the catalog, and layers."""
    devices = [(name, [name]) for name in SERVERS + DISKS]
    devices += [(f"{disk} --scheduler {order}", [disk, "--scheduler", order]) for disk, order in SCHEDULED]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estimate-validation-"))
    for name, text in LAYERS.items():
        (folder / f"{name}.toml").write_text(text)
        devices.append((name, [str(folder / f"{name}.toml")]))
    return [device for device in devices if not ONLY_DEVICES or device[0] in ONLY_DEVICES]


def is_drawn(estimated):
    """True of the recursion over arrivals that the estimate draws, which has the random variation of its draw."""
    return estimated["method"].startswith("lindley")


def writes(seeklab, requests):
    rows = []
    for name, device in [(disk, [disk]) for disk in WRITE_DISKS if not ONLY_DEVICES or disk in ONLY_DEVICES]:
        mix = "random,size=8KiB,read=67%"
        first = seeklab.json("estimate", *device, "-w", f"{mix},poisson=1/s")
        full = seeklab.json("simulate", *device, "-w", f"{mix},requests={requests}", "--closed", "64")
        saturation = first["saturation_per_s"]
        for share in [10, 30, 50, 70, 80, 90]:
            rate = round(full["requests_per_second"] * share / 100, 3)
            count = requests * (4 if share < 70 else 10)
            line = f"{mix},poisson={rate}/s"
            estimated = seeklab.json("estimate", *device, "-w", line)
            simulated = simulated_over_seeds(seeklab, device, line, count)
            # Without a buffer the estimate does not separate reads from writes.
            of = "read_" if estimated["read_response_mean_ms"] is not None else ""
            load = {"load": "67 % reads of 8 KiB", "load_pct": share}
            origin = {"origin": "drawn"} if is_drawn(estimated) else {}
            rows.append(compared(name, load, estimated, simulated, count, of) | compared_p99(estimated, simulated, of) | origin | {
                "simulated_p99_se_pct": round(simulated["p99_se_pct"], 3),
                "simulated_write_mean_ms": round(simulated["write_mean"], 6),
                "estimated_write_mean_ms": estimated["write_response_mean_ms"],
                "simulated_saturation_per_s": full["requests_per_second"],
                "estimated_saturation_per_s": saturation,
                "error_saturation_pct": pct(saturation, full["requests_per_second"]),
            })
            print(*rows[-1].values(), sep=", ", flush=True)
    merge("writes.csv", rows)


def mixes(seeklab, requests):
    rows = []
    for name, device, load, line in mix_cases(seeklab):
        first = line.format(rate=1, batches_of_4="10s", batches_of_20="100s", gap_of_20="100s")
        saturation = seeklab.json("estimate", *device, "-w", first)["saturation_per_s"]
        for share in MIX_LOADS:
            rate = round(saturation * share / 100, 3)
            at = line.format(rate=rate, batches_of_4=f"{4000 / rate:.6f}ms",
                             batches_of_20=f"{20000 / rate:.6f}ms",
                             gap_of_20=f"{20000 / rate - 19:.6f}ms")
            estimated = seeklab.json("estimate", *device, "-w", at)
            if estimated["saturated"]:
                continue
            # The recursion draws other arrivals than a simulation with the same seed.
            drawn = is_drawn(estimated)
            # Rare long services of a clone, batches, and classes that wait for others spread the means of runs.
            long = 20 if "clone" in name or "batches" in load or "noncritical" in load and "cheetah" not in name else 4 if drawn else 1
            count = long * requests * (4 if share < 70 else 10)
            simulated = simulated_over_seeds(seeklab, device, at, count)
            origin = "clone" if "clone" in name else "faults" if "delays" in name else estimated["law"]["origin"]
            if drawn:
                origin = "drawn"
            if "noncritical" in load and origin != "exact":
                origin = "priorities"
            of_load = {"load": load, "load_pct": share}
            row = compared(name, of_load, estimated, simulated, count) | compared_p99(estimated, simulated) | {
                "origin": origin,
                "error_read_mean_pct": pct(estimated["read_response_mean_ms"], simulated["read_mean"]),
                "error_write_mean_pct": pct(estimated["write_response_mean_ms"], simulated["write_mean"]),
            }
            classes = ["time_critical", "time_noncritical"] if estimated["method"] == "mg1_priorities" else []
            # The mean over both classes says nothing about priorities.
            rows += [row | {"load": f"{load}, {of.replace('_', '-')}", "simulated_mean_ms": round(simulated[of], 6),
                            "simulated_se_pct": round(simulated[f"{of}_se_pct"], 3),
                            "estimated_mean_ms": estimated[f"{of}_response_mean_ms"],
                            "error_mean_pct": pct(estimated[f"{of}_response_mean_ms"], simulated[of])}
                     for of in classes] or [row]
            print(*rows[-1].values(), sep=", ", flush=True)
    merge("mixes.csv", rows + networks(seeklab, requests))


NETWORK = "three exponential devices"
NETWORK_SHARES = [0.5, 0.3, 0.2]


def networks(seeklab, requests):
    """Closed reads over three devices that are drawn request by request, simulated with several seeds."""
    if ONLY_DEVICES and NETWORK not in ONLY_DEVICES:
        return []
    draws = random.Random(1)
    trace = pathlib.Path(tempfile.mkdtemp(prefix="estimate-validation-")) / "three.csv"
    with open(trace, "w") as file:
        file.write("arrival_ns,op,lbn,blocks,device\n")
        for request in range(4 * requests):
            device = draws.choices(range(len(NETWORK_SHARES)), NETWORK_SHARES)[0]
            file.write(f"{request},read,{draws.randrange(2_000_000)},16,{device}\n")
    rows = []
    for population in [1, 2, 4, 8, 16, 32]:
        arguments = ["exponential", "-w", str(trace), "--closed", str(population)]
        estimated = seeklab.json("estimate", *arguments)
        runs = [seeklab.json("simulate", *arguments, "--seed", str(seed))["response_mean_ms"] for seed in SEEDS]
        mean = sum(runs) / len(runs)
        simulated = {"mean": mean, "se": standard_error(runs)}
        load = {"load": f"closed reads, population {population:02}"}
        rows.append(compared(NETWORK, load, estimated, simulated, 4 * requests * len(SEEDS)))
        print(*rows[-1].values(), sep=", ", flush=True)
    return rows


def mix_cases(seeklab):
    """Name, arguments, load and workload line of each case of the mixes; the line has a place for the rate."""
    mix, reads = MIX + ",poisson={rate}/s", READS + ",poisson={rate}/s"
    through = ["--set", "electronics.buffer.write_back=none"]
    cases = [(disk, [disk], "50 % reads of 8 KiB", mix) for disk in MIX_DISKS]
    cases += [(f"{disk} without write-back", [disk, *through], "50 % reads of 8 KiB", mix) for disk in MIX_DISKS]
    cases += [(f"{disk} with {delays}", [disk, "--fault", fault], "reads of 8 KiB", reads)
              for disk in DELAYED_DISKS for delays, fault in DELAYS]
    shared = pathlib.Path(os.environ.get("SEEKLAB_SHARED", ROOT.parent / "shared")) / "traces"
    clone = pathlib.Path(tempfile.mkdtemp(prefix="estimate-validation-")) / "clone.toml"
    subprocess.run([seeklab.binary, "fit", str(shared / "pgbench-loop/pgbench.csv.zst"), "-o", str(clone)],
                   check=True, capture_output=True)
    cases += [("clone of pgbench-loop", [str(clone)], "50 % reads of 8 KiB", mix),
              ("clone of pgbench-loop", [str(clone)], "reads of 8 KiB", reads)]
    bursty = f"{READS},arrivals.process=bursty,arrivals.within=0ms"
    cases += [(disk, [disk], f"reads of 8 KiB in batches of {size}, {name}",
               f"{bursty},arrivals.burst={size},arrivals.burst_distribution={name},arrivals.gap={{batches_of_{size}}}")
              for disk in ["exponential", "constant", "hp-c2490a"] for size, name in [(4, "constant"), (20, "geometric")]]
    cases += [(f"{disk} --scheduler criticality-c-look", [disk, "--scheduler", "criticality-c-look"],
               f"{share} % time-noncritical", f"{reads},noncritical={share}%")
              for disk, share in [("exponential", 30), ("exponential", 70), ("constant", 30), ("constant", 70), ("cheetah-36es", 40)]]
    spread = READS + ",arrivals.process=bursty,arrivals.burst=20,arrivals.within=1ms,arrivals.gap={gap_of_20}"
    cases += [(f"{disk} with {DRAWN}", [disk], load, line) for disk in DRAWN_DISKS
              for load, line in [("reads of 8 KiB in bursts of 20", spread), ("reads of 8 KiB at a constant rate", READS + ",constant={rate}/s")]]
    cases += [(f"{disk} --scheduler {order} with {DRAWN}", [disk, "--scheduler", order], "50 % reads of 8 KiB", mix)
              for disk, order in DRAWN_ORDERS]
    cases += [(f"{disk} with {DRAWN}", [disk], "50 % reads, 30 % sequential", mix + ",sequential=30%") for disk in DRAWN_DISKS[1:]]
    return [case for case in cases if not ONLY_DEVICES or case[0] in ONLY_DEVICES]


def thinking(seeklab, requests):
    rows = []
    devices = [(disk, [disk]) for disk in THINKING_DISKS]
    devices += [(f"{disk} --scheduler {order}", [disk, "--scheduler", order]) for disk, order in SCHEDULED]
    for name, device in [device for device in devices if not ONLY_DEVICES or device[0] in ONLY_DEVICES]:
        loads = [(think_ms, population, "exponential", "") for think_ms, population in [(10, 1), (10, 4), (50, 2), (50, 8), (50, 24)]]
        loads += [(think_ms, population, "constant", "constant ") for think_ms, population in [(10, 4), (50, 2), (50, 8), (50, 24), (200, 20)]]
        for think_ms, population, distribution, prefix in loads:
            line = (f"random,size=8KiB,read=100%,arrivals.process=closed,arrivals.population={population},"
                    f"arrivals.think={think_ms}ms,arrivals.think_distribution={distribution}")
            estimated = seeklab.json("estimate", *device, "-w", line)
            simulated = simulated_over_seeds(seeklab, device, line, 4 * requests)
            load = {"load": f"population {population:02}, {prefix}think time {think_ms} ms"}
            rows.append(compared(name, load, estimated, simulated, 4 * requests) | compared_p99(estimated, simulated)
                        | {"simulated_p99_se_pct": round(simulated["p99_se_pct"], 3)})
            print(*rows[-1].values(), sep=", ", flush=True)
    merge("thinking.csv", rows)


def merge(name, rows):
    """Writes rows; with --device those of other devices stay as they are."""
    if ONLY_DEVICES and (FOLDER / name).exists():
        kept = [row for row in csv.DictReader(open(FOLDER / name)) if row["device"] not in ONLY_DEVICES]
        place = lambda row: float(row.get("load_pct") or row.get("outstanding") or 0)
        rows = sorted(kept + rows, key=lambda row: (row["device"], row.get("load", ""), str(row.get("bare", "")), row.get("scheduler", ""),
                                                      -float(row.get("reads_pct") or 0), place(row)))
    write(name, rows)
    return rows


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


def other_traces():
    """Traces of which no figure of issue 17 depends, for the disks that reorder."""
    shared = pathlib.Path(os.environ.get("SEEKLAB_SHARED", ROOT.parent / "shared")) / "traces"
    wrap = ["--beyond", "wrap"]
    return [
        ("msr-cuts rw_20_80", str(shared / "msr-cuts/msr.cut.per_10k.rw_20_80.105.trace.zst"), wrap),
        ("msr-cuts rw_40_60", str(shared / "msr-cuts/msr.cut.per_10k.rw_40_60.1370.trace.zst"), wrap),
        ("spc-financial1, device 0", f"replay,trace={shared / 'spc-financial1-prefix/Financial1.prefix.spc.zst'},device=0", wrap),
        ("disksim-ascii, device 0", f"replay,trace={shared / 'disksim-ascii/ascii.trace.zst'},device=0", wrap),
        ("opencas-ycsb", str(shared / "opencas-ycsb-rocksdb-optane/ycsb_a_rocksdb.csv.zst"), wrap),
    ]


def row_of(device, load, share, estimated, simulated):
    """An estimate beside the simulation of the same arrivals."""
    return {
        "device": device, "load": load, "load_pct": share, "method": estimated["method"],
        "origin": estimated["law"]["origin"], "utilisation_pct": estimated["utilisation_pct"],
        "simulated_mean_ms": simulated["response_mean_ms"], "estimated_mean_ms": estimated["response_mean_ms"],
        "error_mean_pct": pct(estimated["response_mean_ms"], simulated["response_mean_ms"]),
        "simulated_p99_ms": simulated["response_p99_ms"], "estimated_p99_ms": estimated["response_p99_ms"],
        "error_p99_pct": pct(estimated["response_p99_ms"], simulated["response_p99_ms"]),
    }


def traces(seeklab, _requests):
    rows = []
    loads = [(load, TRACE_DISKS) for load in trace_loads()] + [(load, REORDERING_DISKS) for load in other_traces()]
    for (name, line, options), disks in loads:
        for disk in [disk for disk in disks if not ONLY_DEVICES or disk in ONLY_DEVICES]:
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
    merge("traces.csv", rows)


def closed_replays(seeklab, _requests):
    """Traces that a population replays; a closed replay has the addresses and lengths of the trace, and no arrivals."""
    rows = []
    shared = pathlib.Path(os.environ.get("SEEKLAB_SHARED", ROOT.parent / "shared")) / "traces"
    more = [("arc-oltp", str(shared / "arc-oltp/OLTP.lis.zst"), ["--beyond", "wrap"])]
    for name, line, options in trace_loads() + more:
        for device in [device for device in CLOSED_DEVICES if not ONLY_DEVICES or device in ONLY_DEVICES]:
            for population in [2, 8]:
                arguments = [device, "-w", line, *options, "--requests", str(CLOSED_REQUESTS), "--closed", str(population)]
                estimated = seeklab.json("estimate", *arguments)
                # Of a device that draws its service times, another seed draws others.
                simulated = seeklab.json("simulate", *arguments, "--seed", "2")
                row = row_of(device, f"{name}, population {population}", "", estimated, simulated)
                # The run has no law.
                rows.append(row | {"origin": "drawn" if device == "exponential" else "sampled"})
                print(*rows[-1].values(), sep=", ", flush=True)
    merge("closed.csv", rows)


def run_of(seeklab, arguments, folder):
    """Arrivals of a simulation in seconds, and its services in order of completion: request, waiting, seconds."""
    path = folder / "run.csv"
    seeklab.json("simulate", *arguments, "--out", str(path))
    rows = csv.DictReader(line for line in open(path) if not line.startswith("#"))
    times = sorted((int(row["arrival_ns"]), int(row["completion_ns"])) for row in rows)
    arrivals = [arrival / 1e9 for arrival, _ in times]
    order = sorted(range(len(times)), key=lambda request: times[request][1])
    services, free, arrived = [], -math.inf, 0
    for served, request in enumerate(order):
        idle, start = arrivals[served] >= free, max(free, arrivals[served])
        while arrived < len(arrivals) and arrivals[arrived] <= start:
            arrived += 1
        free = times[request][1] / 1e9
        services.append((request, 0 if idle else arrived - served, free - start))
    return arrivals, services


def predicted(arrivals, services, mean_of):
    """Response times of arrivals by the recursion of crates/estimate/src/recorded.rs."""
    responses, late, due = [0.0] * len(arrivals), [], []
    free, arrived, place = -math.inf, 0, 0
    for served, arrival in enumerate(arrivals):
        idle, start = arrival >= free, max(free, arrival)
        while arrived < len(arrivals) and arrivals[arrived] <= start:
            arrived += 1
        while late and late[0][0] < arrived:
            heapq.heappush(due, heapq.heappop(late)[1])
        if due:
            request, waiting, service = services[heapq.heappop(due)]
        else:
            while services[place][0] >= arrived:
                heapq.heappush(late, (services[place][0], place))
                place += 1
            request, waiting, service = services[place]
            place += 1
        free = start + service * mean_of(0 if idle else arrived - served) / mean_of(waiting)
        responses[request] = free - arrivals[request]
    return responses


def mean_by_waiting(points):
    """Mean service time of a law by the number waiting, interpolated by the logarithm of the number outstanding."""
    points = [(point["outstanding"], point["service_mean_ms"]) for point in points]

    def mean_of(waiting):
        outstanding = waiting + 1
        for (low, before), (high, after) in zip(points, points[1:]):
            if outstanding < high:
                return before + (after - before) * math.log(outstanding / low) / math.log(high / low)
        return points[-1][1]
    return functools.cache(mean_of)


def predictions(seeklab, _requests):
    rows = []
    with tempfile.TemporaryDirectory(prefix="estimate-validation-") as folder:
        for name, line, options in trace_loads() + other_traces():
            for disk in REORDERING_DISKS:
                arguments = [disk, "-w", line, *options]
                runs = {}
                for share in [30, 60]:
                    grown = seeklab.json("estimate", *arguments, "--until", f"utilisation_pct<={share}")
                    scaled = [*arguments, "--scaled", f"{grown['until']['growth']:.6f}"]
                    runs[share] = run_of(seeklab, scaled, pathlib.Path(folder))
                mean_of = mean_by_waiting(grown["law"]["points"])
                for share, other in [(30, 60), (60, 30)]:
                    arrivals, services = runs[share]
                    of = lambda responses: (sum(responses) / len(responses), sorted(responses)[len(responses) * 99 // 100])
                    simulated, found = (of(predicted(arrivals, of_run, mean_of)) for of_run in [services, runs[other][1]])
                    rows.append({
                        "device": disk, "load": name, "load_pct": share, "services_of_load_pct": other,
                        "simulated_mean_ms": round(1e3 * simulated[0], 6), "predicted_mean_ms": round(1e3 * found[0], 6),
                        "error_mean_pct": pct(found[0], simulated[0]), "simulated_p99_ms": round(1e3 * simulated[1], 6),
                        "predicted_p99_ms": round(1e3 * found[1], 6), "error_p99_pct": pct(found[1], simulated[1]),
                    })
                    print(*rows[-1].values(), sep=", ", flush=True)
    write("predictions.csv", rows)


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

    def compare(device, load, figure, bound, line, bisections):
        found = seeklab.json("estimate", *device, *line, "--until", f"{figure}<={bound}")["until"]
        growths = [bisected(seeklab, figure, bound, simulate) for simulate in bisections]
        growth = sum(growths) / len(growths)
        row = {
            "device": " ".join(device), "load": load, "bound": found["bound"], "bisected_growth": round(growth, 5),
            "bisected_se_pct": round(100 * standard_error(growths) / growth, 3) if len(growths) > 1 else "",
            "estimated_growth": found["growth"], "error_pct": pct(found["growth"], growth),
            "growth_min": found["growth_min"], "growth_max": found["growth_max"],
        }
        # A bisection over the requests of the estimate says nothing about an interval that is for other requests too.
        if len(growths) > 1:
            row["inside"] = found["growth_min"] <= growth <= found["growth_max"]
        rows.append(row)
        print(*rows[-1].values(), sep=", ", flush=True)

    wanted = lambda device: not ONLY_DEVICES or device in ONLY_DEVICES
    for device, rate, bounds in [case for case in UNTIL_POISSON if wanted(" ".join(case[0]))]:
        line = lambda rate: f"random,size=8KiB,read=100%,poisson={rate:.4f}/s,requests={2 * requests}"
        simulate = lambda seed: lambda factor: seeklab.json("simulate", *device, "-w", line(rate * factor), "--seed", str(seed))
        for figure, bound in bounds:
            compare(device, f"poisson={rate}/s", figure, bound, ["-w", line(rate)], [simulate(seed) for seed in SEEDS])
    for name, line, options in trace_loads():
        for disk in filter(wanted, TRACE_DISKS):
            arguments = ["-w", line, *options]
            simulate = lambda factor: seeklab.json("simulate", disk, *arguments, "--scaled", f"{factor:.8f}")
            for figure, bound in UNTIL_TRACES:
                compare([disk], name, figure, bound, arguments, [simulate])
    rows = merge("until.csv", rows)
    for kind, of in [("Poisson", lambda row: row["load"].startswith("poisson")), ("traces", lambda row: not row["load"].startswith("poisson"))]:
        errors_of = [abs(float(row["error_pct"])) for row in rows if of(row)]
        inside = sum(str(row.get("inside")) == "True" for row in rows if of(row))
        if errors_of:
            print(f"{kind}: largest error {max(errors_of)} %, inside the interval {inside} of {len(errors_of)}")


def coverage(seeklab, requests):
    rows = []
    wanted = lambda device: not ONLY_DEVICES or device in ONLY_DEVICES
    for device, arrivals, bounds in [case for case in COVERAGE_BURSTS if wanted(case[0])]:
        keys = ",".join(f"arrivals.{item}" for item in arrivals.split(","))
        line = f"random,size=8KiB,read=100%,arrivals.process=bursty,{keys}"
        for figure, bound in bounds:
            # The gap stands for the rate: with --until, all times between arrivals shrink.
            simulate = lambda seed: lambda factor: seeklab.json(
                "simulate", device, "-w", shrunk(line, factor) + f",requests={10 * requests}", "--seed", str(seed))
            growths = [bisected(seeklab, figure, bound, simulate(seed)) for seed in [101, 102]]
            growth = sum(growths) / len(growths)
            below = above = 0
            for seed in COVERAGE_SEEDS:
                found = seeklab.json("estimate", device, "-w", f"{line},requests=20000", "--seed", str(seed),
                                     "--until", f"{figure}<={bound}")["until"]
                below += growth < found["growth_min"]
                above += found["growth_max"] is not None and growth > found["growth_max"]
            count = len(COVERAGE_SEEDS)
            rows.append({
                "device": device, "load": f"bursts, {arrivals}", "bound": f"{figure}<={bound}", "known_growth": round(growth, 4),
                "known_se_pct": round(100 * standard_error(growths) / growth, 2),
                "samples": count, "inside": count - below - above, "below": below, "above": above,
            })
            print(*rows[-1].values(), sep=", ", flush=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estimate-validation-"))
    loads = [(load, TRACE_DISKS) for load in trace_loads()] + [(load, REORDERING_DISKS) for load in other_traces()]
    for (name, line, options), disks in loads:
        disks = [disk for disk in disks if wanted(disk)]
        halves = halves_of(seeklab, line, options, folder) if disks else []
        for disk in disks:
            for figure, bound in UNTIL_TRACES:
                found = [seeklab.until(disk, half, options, f"{figure}<={bound}") for half in halves]
                row = {"device": disk, "load": f"halves of {name}", "bound": f"{figure}<={bound}", "samples": 1}
                if all(found):
                    first, second = sorted(found, key=lambda until: until["growth"])
                    # Both halves are samples: the difference has both errors.
                    apart = math.log(second["growth"] / first["growth"])
                    up = math.log(first["growth_max"] / first["growth"]) if first["growth_max"] else math.inf
                    down = math.log(second["growth"] / second["growth_min"]) if second["growth_min"] > 0 else math.inf
                    row |= {"inside": int(apart <= math.hypot(up, down)), "growth_ratio": round(math.exp(apart), 4),
                            "allowed_ratio": round(math.exp(min(math.hypot(up, down), 700)), 4)}
                rows.append(row)
                print(*rows[-1].values(), sep=", ", flush=True)
    merge("coverage.csv", rows)


def shrunk(line, factor):
    """The line with the times of its bursts divided by a factor."""
    divide = lambda match: f"{match[1]}={float(match[2]) / factor:.9f}ms"
    return re.sub(r"(arrivals\.(?:within|gap))=([0-9.]+)ms", divide, line)


def halves_of(seeklab, line, options, folder):
    """Both halves of the requests of a trace, as traces that a simulation on an immediate device writes."""
    whole = folder / "whole.csv"
    seeklab.json("simulate", "immediate", "-w", line, *options, "--out", str(whole))
    lines = open(whole).read().splitlines(keepends=True)
    begin = next(number for number, text in enumerate(lines) if not text.startswith("#")) + 1
    head, rows = lines[:begin], lines[begin:]
    halves = []
    for number, part in enumerate([rows[:len(rows) // 2], rows[len(rows) // 2:]]):
        halves.append(folder / f"half{number}.csv")
        halves[-1].write_text("".join(head + part))
    return [str(half) for half in halves]


def errors():
    """Largest errors by method, origin and utilisation. Closed loads keep the device busy; their times are those of laws.csv."""
    groups = {}

    def add(row, method, utilisation_pct):
        group = groups.setdefault((method, row["origin"], 80 if utilisation_pct <= 80 else 100), {"mean": [], "p99": []})
        for figure in group:
            if row.get(f"error_{figure}_pct"):
                group[figure].append(abs(float(row[f"error_{figure}_pct"])))

    for name in ["loads.csv", "writes.csv", "mixes.csv", "traces.csv", "laws.csv", "thinking.csv", "closed.csv"]:
        if not (FOLDER / name).exists():
            continue
        for row in csv.DictReader(open(FOLDER / name)):
            if name == "laws.csv":
                add(row, "closed", 100)
            elif row["utilisation_pct"]:
                add(row, row["method"], float(row["utilisation_pct"]))
    largest = lambda errors_of: round(max(errors_of), 2) if errors_of else ""
    write("errors.csv", [
        {"method": method, "origin": origin, "utilisation_pct_max": top,
         "response_mean_pct": largest(group["mean"]), "response_p99_pct": largest(group["p99"])}
        for (method, origin, top), group in sorted(groups.items())
    ])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(ROOT / "target/release/seeklab"))
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--only", default="laws,loads,writes,mixes,thinking,closed,traces,predictions,until,coverage")
    parser.add_argument("--device", action="append", default=[], help="a device; rows of others stay")
    options = parser.parse_args()
    ONLY_DEVICES.extend(options.device)
    seeklab = Seeklab(options.binary)
    parts = {"laws": laws, "loads": loads, "writes": writes, "mixes": mixes, "thinking": thinking, "closed": closed_replays, "traces": traces, "predictions": predictions,
             "until": until, "coverage": coverage}
    for part in options.only.split(","):
        parts[part](seeklab, options.requests)
    errors()


if __name__ == "__main__":
    main()
