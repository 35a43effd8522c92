#!/usr/bin/env python3
"""Tables 6.1 to 6.4 of Griffin 2004, row by row, with what was measured here beside them.

    tables.py postmark|source-build|large-build FILE.json

FILE.json is what `seeklab run --json` printed. Sizes differ from the dissertation's, so the rows to compare are
the shares (of Cheetah) and the errors.
"""

import json
import sys

COLUMNS = ["Cheetah", "50K RPM", "Immediate"]

# Means of Griffin 2004: run time in s (tables 6.1), requests, times in host and simulator and errors in ms
# (tables 6.2 to 6.4), for Emulated Cheetah, Emulated 50K RPM, Emulated Immediate.
PAPER = {
    "postmark": {
        "elapsed_s": [45.99, 15.85, 3.38],
        "requests": [10422, 10421, 10421],
        "mp1_mean_ms": [4.456, 1.530, 0.313],
        "mp3_mean_ms": [4.381, 1.471, None],
        "ei_avg_ms": [0.075, 0.059, None],
        "ei_avg_pct": [1.7, 4.0, None],
        "ei_rms_ms": [0.991, 0.888, None],
        "ei_rms_pct": [22.6, 60.4, None],
        "ea_rms_ms": [0.860, 0.838, None],
        "ea_rms_pct": [19.6, 57.0, None],
    },
    "source-build": {
        "elapsed_s": [218.27, 107.97, 51.55],
        "unpack": [25.80, 9.30, 1.77],
        "configure": [54.79, 26.44, 12.50],
        "make": [137.68, 72.23, 37.28],
        "requests": [39496, 39494, 39487],
        "mp1_mean_ms": [4.566, 1.745, 0.288],
        "mp3_mean_ms": [4.489, 1.687, None],
        "ei_avg_ms": [0.077, 0.058, None],
        "ei_avg_pct": [1.7, 3.4, None],
        "ei_rms_ms": [0.959, 0.591, None],
        "ei_rms_pct": [21.4, 35.0, None],
        "ea_rms_ms": [0.785, 0.505, None],
        "ea_rms_pct": [17.5, 29.9, None],
    },
    "large-build": {
        "elapsed_s": [534.95, 400.61, 326.09],
        "requests": [46256, 46240, 46202],
        "mp1_mean_ms": [5.088, 2.083, 0.337],
        "mp3_mean_ms": [4.925, 1.981, None],
        "ei_avg_ms": [0.162, 0.102, None],
        "ei_avg_pct": [3.3, 5.1, None],
    },
}

NAMES = {
    "elapsed_s": "Run time [s]",
    "requests": "Total requests",
    "mp1_mean_ms": "mean response time in host [ms]",
    "mp3_mean_ms": "mean response time in simulator [ms]",
    "ei_avg_ms": "EI_avg [ms]",
    "ei_avg_pct": "EI_avg [%]",
    "ei_rms_ms": "EI_rms [ms]",
    "ei_rms_pct": "EI_rms [%]",
    "ea_rms_ms": "EA_rms [ms]",
    "ea_rms_pct": "EA_rms [%]",
}


def measured(device, key):
    """Mean and standard deviation of a figure over repetitions."""
    if key in device["statistics"]:
        figure = device["statistics"][key]
        return figure["mean"], figure["sd"]
    runs = [phase["elapsed_s"] for run in device["repetitions"] for phase in run["phases"] if phase["name"] == key]
    if not runs:
        return None
    mean = sum(runs) / len(runs)
    sd = (sum((run - mean) ** 2 for run in runs) / (len(runs) - 1)) ** 0.5 if len(runs) > 1 else 0.0
    return mean, sd


def number(value):
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3f}"


def main():
    name, path = sys.argv[1:]
    with open(path) as file:
        devices = json.load(file)["devices"]
    print(f"| {name} | " + " | ".join(f"{column}, here | paper" for column in COLUMNS) + " |")
    print("| --- |" + " --- | --- |" * len(COLUMNS))
    for key, theirs in PAPER[name].items():
        ours = [measured(device, key) for device in devices]
        cells = []
        for figure, paper in zip(ours, theirs):
            cells.append("–" if figure is None else f"{number(figure[0])} ({number(figure[1])})")
            cells.append(number(paper))
        print(f"| {NAMES.get(key, key + ' phase [s]')} | " + " | ".join(cells) + " |")
        if key in NAMES and key != "elapsed_s" or ours[0] is None:
            continue
        shares = []
        for figure, paper in zip(ours, theirs):
            shares += [f"{100 * figure[0] / ours[0][0]:.1f} %", f"{100 * paper / theirs[0]:.1f} %"]
        print("| … of Cheetah | " + " | ".join(shares) + " |")


if __name__ == "__main__":
    main()
