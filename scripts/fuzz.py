#!/usr/bin/env python3
"""Runs every fuzz target for a while, from real samples; a table of executions and crashes on stdout.

    scripts/fuzz.py [--seconds N] [--traces FOLDER] [TARGET ...]

Corpora begin with the samples of the tests, the first 8 KiB of the shared traces (--traces [default: ../shared/traces]; without
them only the former), both packed as well for `guess`, and the catalog of devices. They grow under fuzz/corpus; what crashes lies
under fuzz/artifacts: give it a test beside the reader it broke. Seconds are by the clock, 60 for each target by default.
Exit status 1 if anything crashed. Needs cargo-fuzz, a nightly toolchain and zstd.
"""

import argparse
import gzip
import lzma
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FUZZ = ROOT / "fuzz"
SAMPLE_BYTES = 8192

# Shared traces and the target that reads them.
SHARED = {
    "arc": ["arc-oltp/OLTP.lis.zst"],
    "biosnoop": ["pgbench-loop/pgbench.biosnoop.txt.zst"],
    "blkparse": ["blkparse-mbpar/blktrace.txt.zst"],
    "blktrace": ["blktrace-sample-bsd/sample.blktrace.0.zst"],
    "cachelib": ["cachelib-tectonic/block_traces_1.csv.zst"],
    "cloudphysics_csv": ["cloudphysics-sample/cloudPhysicsIO.csv.zst"],
    "disksim_ascii": ["disksim-ascii/ascii.trace.zst"],
    "disksim_validate": ["disksim-validate/atlas10k.trace.zst"],
    "fio_iolog_v3": ["fio-iolog-v3/oltp-poisson.iolog.zst"],
    "hpl_srt": ["hpl-srt-ajw/ajw.1week.srt.zst"],
    "issue_csv": ["opencas-ycsb-rocksdb-optane/ycsb_a_rocksdb.csv.zst", "pgbench-loop/pgbench.csv.zst"],
    "msr": ["msr-format-fixture/pgloop_0.csv.zst"],
    "msr_cut": ["msr-cuts/msr.cut.per_10k.rw_20_80.105.trace.zst"],
    "oracle_general": ["cloudphysics-sample/cloudPhysicsIO.oracleGeneral.bin.zst"],
    "spc": ["spc-financial1-prefix/Financial1.prefix.spc.zst"],
    "ssdsim": ["mqsim-tpcc/tpcc-small.trace.zst", "spc-financial1-prefix/ssdsim-example.ascii.zst"],
    "thesios": ["thesios-sample/thesios_sample.csv"],
    "tracefs": ["pgbench-loop/pgbench.ftrace.zst"],
    "vscsi": ["cloudphysics-sample/cloudPhysicsIO.vscsi.zst"],
    "wpa": ["wpa-win11-boot/diskio.part1.csv.zst"],
}


def say(text):
    print(f"fuzz: {text}", file=sys.stderr, flush=True)


def beginning(path):
    """The first plain bytes of a file."""
    if path.suffix != ".zst":
        return path.read_bytes()[:SAMPLE_BYTES]
    with subprocess.Popen(["zstd", "-dcq", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as zstd:
        bytes_ = zstd.stdout.read(SAMPLE_BYTES)
        zstd.kill()
    return bytes_


def samples(traces):
    """Every sample: target, name, bytes."""
    for folder in sorted((ROOT / "crates/traces/tests/data").iterdir()):
        for path in sorted(folder.iterdir()):
            target = folder.name.replace("-", "_")
            if target == "fio_iolog":
                target = "fio_iolog_v2" if ".v2." in path.name else "fio_iolog_v3"
            yield target, path.name, beginning(path)
    for target, names in SHARED.items():
        for name in names:
            if (traces / name).exists():
                yield target, Path(name).name.removesuffix(".zst"), beginning(traces / name)
            else:
                say(f"skipped: {traces / name} is absent")
    for path in sorted((ROOT / "crates/devices/catalog").glob("*.toml")):
        yield "description", path.name, path.read_bytes()
    for path in sorted((ROOT / "examples/ganger-patt").glob("*.toml")):
        yield "host", path.name, path.read_bytes()


def seed(traces):
    for target, name, bytes_ in samples(traces):
        forms = {target: {name: bytes_}}
        if target not in ("description", "host"):
            zstd = subprocess.run(["zstd", "-cq"], input=bytes_, capture_output=True, check=True).stdout
            forms["guess"] = {f"{target}-{name}": bytes_, f"{target}-{name}.gz": gzip.compress(bytes_, mtime=0),
                              f"{target}-{name}.xz": lzma.compress(bytes_), f"{target}-{name}.zst": zstd}
        for corpus, files in forms.items():
            folder = FUZZ / "corpus" / corpus
            folder.mkdir(parents=True, exist_ok=True)
            for file, content in files.items():
                (folder / file).write_bytes(content)


def run(target, seconds):
    """Runs a target; executions, and what crashed."""
    (FUZZ / "corpus" / target).mkdir(parents=True, exist_ok=True)
    artifacts = FUZZ / "artifacts" / target
    before = set(artifacts.glob("*"))
    command = ["cargo", "+nightly", "fuzz", "run", target, "--", f"-max_total_time={seconds}", "-timeout=10",
               "-rss_limit_mb=2048", "-max_len=65536", "-use_value_profile=1", "-print_final_stats=1"]
    done = subprocess.run(command, cwd=FUZZ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    count = re.findall(r"number_of_executed_units: *(\d+)", done.stderr)
    found = [path.name for path in sorted(set(artifacts.glob("*")) - before)]
    if done.returncode != 0 and not found:
        sys.exit(f"error: `{' '.join(command)}` ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return int(count[-1]) if count else 0, found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], epilog=__doc__.split("\n\n", 2)[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all unless named")
    parser.add_argument("--seconds", type=int, default=60, metavar="N", help="for each target")
    parser.add_argument("--traces", type=Path, default=ROOT.parent / "shared/traces", metavar="FOLDER")
    options = parser.parse_args()
    known = [target["name"] for target in tomllib.loads((FUZZ / "Cargo.toml").read_text())["bin"]]
    if unknown := [name for name in options.targets if name not in known]:
        sys.exit(f"error: there is no target {', '.join(unknown)}; there are {', '.join(known)}")
    if not options.traces.is_dir():
        say(f"{options.traces} is absent: corpora begin without real traces (--traces FOLDER names another folder)")
    seed(options.traces)
    print("| target | executions | crashed |\n| --- | --- | --- |", flush=True)
    crashed = False
    for target in options.targets or known:
        say(f"{target} …")
        count, found = run(target, options.seconds)
        crashed |= bool(found)
        print(f"| {target} | {count:,} | {', '.join(found) or '–'} |", flush=True)
    sys.exit(1 if crashed else 0)


if __name__ == "__main__":
    main()
