"""Runs the experiment that reorganise.sh describes: slices, remaps, simulates, tabulates."""

import json
import os
import subprocess
import sys

seeklab, hottest, block = (os.environ[name] for name in ("SEEKLAB", "HOTTEST", "BLOCK"))
days, disk = int(os.environ["DAYS"]), os.environ["DISK"]
trace, out, devices = sys.argv[1], sys.argv[2], sys.argv[3:]


def run(*arguments):
    """What `seeklab` says in JSON."""
    command = [seeklab, *arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def path(name):
    return os.path.join(out, name)


def remap(source, target, heat_of):
    arguments = ["--hottest", hottest, "--block-size", block, "--heat-of", heat_of]
    # The same places for every day: the end of the whole trace is the end of the device.
    done = run("trace", "remap", source, "-o", target, "--capacity", capacity, *arguments)
    return done["devices"][0] if done["devices"] else None


def simulate(device, name, places):
    """Totals of a day in seconds, and seeks: in cylinders, or in MiB by the addresses where the device knows no cylinders."""
    figures = run("simulate", device, "--workload", path(name))["devices"][0]
    requests = figures["requests"]
    total_s = requests * figures["response_mean_ms"] / 1e3
    if device in clones:
        seek, zero = places["seek_distance_mean_bytes"] / 2**20, places["seek_zero_pct"]
    else:
        seek, zero = figures.get("seek_cylinders_mean"), figures.get("seek_zero_pct")
    # Tables draw the whole response: how much of it was waiting, they do not know.
    queue_s = None if device in tables else requests * (figures["queue_mean_ms"] or 0) / 1e3
    return {"requests": requests, "total_s": total_s, "queue_s": queue_s, "seek_mean": seek, "seek_zero_pct": zero}


whole = path("whole.parquet")
run("trace", "slice", trace, "-o", whole, "--device", disk)
about = run("trace", "info", whole)["traces"][0]
block_bytes = about["block_size_bytes"]
capacity = f"{about['address_range_blocks'] * block_bytes}B"



def fitted(model):
    """A device cloned from the trace itself, as it was measured."""
    clone = path(f"{model}.toml")
    run("fit", whole, "-o", clone, "--model", model)
    return clone


names = devices
devices = [fitted(name.removeprefix("fit:")) if name.startswith("fit:") else name for name in names]
clones = {device for name, device in zip(names, devices) if name.startswith("fit:")}
tables = {device for name, device in zip(names, devices) if name == "fit:plain"}
results = []
before = None
for day in range(days):
    name = f"day{day}.parquet"
    sliced = run("trace", "slice", whole, "-o", path(name), "--start", f"{day * 86400}s", "--length", "86400s")
    if sliced["rows"] == 0:
        before = None
        continue
    row = {"day": day, "requests": sliced["rows"], "devices": {}}
    ways = {"as it was": name}
    row["trace"] = remap(path(name), path(f"hot{day}.parquet"), whole)
    ways["hottest of the whole"] = f"hot{day}.parquet"
    if before is not None:
        row["trace_by_the_day_before"] = remap(path(name), path(f"before{day}.parquet"), path(before))
        ways["hottest of the day before"] = f"before{day}.parquet"
    for device in devices:
        places = {"as it was": row["trace"]["before"], "hottest of the whole": row["trace"]["after"]}
        if before is not None:
            places["hottest of the day before"] = row["trace_by_the_day_before"]["after"]
        row["devices"][device] = {way: simulate(device, file, places[way]) for way, file in ways.items()}
    results.append(row)
    before = name
    print(f"day {day} done", file=sys.stderr)

lines = [f"# The {hottest} hottest blocks of {block} at the outer edge", ""]
lines += [f"{os.path.basename(trace)}, disk {disk}; `{'`, `'.join(names)}`. Service time includes queueing.", ""]
for name, device in zip(names, devices):
    lines += [f"## {name}", ""]
    lines += [
        "| day | requests | total s | queue | mean seek | no seek | hottest of the whole: total | mean seek | no seek "
        "| of the day before: total |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    # Cylinders, and by the addresses of the trace where there are none.
    unit = " MiB" if device in clones else ""

    def queue_of(figures):
        """The share of queueing."""
        return "–" if device in tables else f"{100 * figures['queue_s'] / figures['total_s']:.0f} %"

    sums = {}
    for row in results:
        ways = row["devices"][device]
        was, hot = ways["as it was"], ways["hottest of the whole"]
        yesterday = ways.get("hottest of the day before")
        for way, figures in ways.items():
            total = sums.setdefault(way, {"total_s": 0.0, "queue_s": 0.0, "seeks": 0.0, "zero": 0.0, "requests": 0})
            total["total_s"] += figures["total_s"]
            total["queue_s"] += figures["queue_s"] or 0
            total["requests"] += figures["requests"]
            total["seeks"] += figures["requests"] * (figures["seek_mean"] or 0)
            total["zero"] += figures["requests"] * (figures["seek_zero_pct"] or 0) / 100
        # The first day has no day before: it is left out of that comparison.
        if yesterday:
            total = sums.setdefault("as it was, later days", {"total_s": 0.0})
            total["total_s"] += was["total_s"]

        def change(figures, key="total_s"):
            if not figures or not figures[key] or not was[key]:
                return "–"
            return f"{100 * (figures[key] / was[key] - 1):+.1f} %"

        def number(value, digits=1, unit=""):
            return "–" if value is None else f"{value:.{digits}f}{unit}"

        lines.append(
            f"| {row['day']} | {row['requests']:,} | {was['total_s']:.1f} "
            f"| {queue_of(was)} "
            f"| {number(was['seek_mean'], unit=unit)} | {number(was['seek_zero_pct'], unit=' %')} | {change(hot)} "
            f"| {change(hot, 'seek_mean')} | {number(hot['seek_zero_pct'], unit=' %')} | {change(yesterday)} |"
        )
    was, hot = sums["as it was"], sums["hottest of the whole"]
    yesterday, later = sums.get("hottest of the day before"), sums.get("as it was, later days")
    gain = lambda a, b, key="total_s": f"{100 * (a[key] / b[key] - 1):+.1f} %" if a and b and b[key] else "–"

    def of_all(sums, key, percent=None):
        """A mean over all requests."""
        return f"{(percent or 1) * sums[key] / sums['requests']:.1f}{' %' if percent else unit}"

    # A request that is split where its blocks part counts once more; so seeks are compared by their sum.
    lines.append(
        f"| all | {was['requests']:,} | {was['total_s']:.1f} | {queue_of(was)} "
        f"| {of_all(was, 'seeks')} | {of_all(was, 'zero', 100)} | {gain(hot, was)} "
        f"| {gain(hot, was, 'seeks')} | {of_all(hot, 'zero', 100)} | {gain(yesterday, later)} |"
    )
    limit = ("How much of it is queueing, tables of whole response times do not know." if device in tables else
             f"{queue_of(was)} of the service time is queueing, where a shorter seek helps only as far as the queue gets "
             "shorter; of the rest, seeks are a part.")
    lines += ["", limit, ""]

with open(path("results.json"), "w") as file:
    json.dump({"trace": trace, "disk": disk, "hottest": hottest, "block": block, "days": results}, file, indent=1)
with open(path("report.md"), "w") as file:
    file.write("\n".join(lines))
print("\n".join(lines))
