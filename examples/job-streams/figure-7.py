#!/usr/bin/env python3
"""Shape of figure 7 of Lindsay and Ferrari (1975): elapsed time of a stream of jobs over the threshold.

Estimates `mix.toml` on `berkeley-1975` at thresholds of 1 to 8 sectors with each method, and simulates it.

Usage: figure-7.py [FOLDER] [SEEKLAB]. Writes lindsay-ferrari-figure-7.svg into FOLDER [default: .]. Ends with 1 if the middle is not the
shortest of a curve.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "spek"))
import chart

THRESHOLDS = range(1, 9)
SEED = "1"
NAMES = {"job_slot": "one job slot, followed exactly", "lindsay_ferrari": "published equations"}


def device_of(seeklab, *arguments):
    run = subprocess.run([seeklab, *arguments, "--seed", SEED, "--json"], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)["devices"][0]


def simulated(seeklab, mix, folder, threshold):
    """Elapsed time in seconds."""
    stream = pathlib.Path(folder) / "mix.toml"
    stream.write_text(mix.read_text().replace("threshold = 4", f"threshold = {threshold}"))
    return device_of(seeklab, "simulate", "berkeley-1975", "-w", str(stream))["jobs"]["elapsed_s"]


def main():
    target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    seeklab = sys.argv[2] if len(sys.argv) > 2 else "target/release/seeklab"
    mix = HERE / "mix.toml"
    vary = f"threshold={THRESHOLDS[0]}..{THRESHOLDS[-1]}"
    points = device_of(seeklab, "estimate", "berkeley-1975", "-w", str(mix), "--vary", vary)["points"]
    with tempfile.TemporaryDirectory() as folder:
        curves = {"simulated": [simulated(seeklab, mix, folder, threshold) for threshold in THRESHOLDS]}
    for method, name in NAMES.items():
        curves[name] = [next(found["elapsed_s"] for found in point["estimates"] if found["method"] == method) for point in points]
    # The axis begins at zero, where the shape of elapsed times would be flat.
    above = lambda curve: [100 * (elapsed / min(curve) - 1) for elapsed in curve]
    series = [(name, list(zip(THRESHOLDS, above(curve))), name != "simulated") for name, curve in curves.items()]
    chart.write(target / "lindsay-ferrari-figure-7.svg", "A stream of 20 jobs (Lindsay and Ferrari, figure 7)", "threshold, sectors of a buffer of 8",
                "elapsed time, % above its shortest", series)
    for name, curve in curves.items():
        print(f"{name:32}", *(f"{elapsed:7.1f}" for elapsed in curve))
    sys.exit(any(min(curve) in (curve[0], curve[-1]) for curve in curves.values()))


if __name__ == "__main__":
    main()
