#!/bin/sh
# IOPS and median response time of `seeklab serve immediate` over NBD without faults, and with a fault of data that does
# not strike, beside another build without faults: fio's nbd engine, 4 KiB random reads and writes on unix sockets, in
# interleaved turns. usage: fault-cost.sh SEEKLAB [OTHER_SEEKLAB]
# Needs fio with its nbd engine, and python3. TURNS, RUNTIME (seconds) and DEPTHS can be set.
set -eu
[ $# -ge 1 ] || { echo "usage: $0 SEEKLAB [OTHER_SEEKLAB]" >&2; exit 2; }
turns=${TURNS:-5} runtime=${RUNTIME:-1} depths=${DEPTHS:-1 32}
directory=$(mktemp -d)
servers=
trap 'kill $servers 2>/dev/null; wait; rm -rf "$directory"' EXIT

serve() { # name, program, further options
    name=$1 program=$2
    shift 2
    "$program" serve immediate --uncalibrated --size 1GiB --nbd "unix:$directory/$name.sock" "$@" >/dev/null 2>&1 &
    servers="$servers $!"
    while ! [ -S "$directory/$name.sock" ]; do sleep 0.1; done
}
serve plain "$1"
serve faults "$1" --fault lost_write,at=8000h
names="plain faults"
if [ $# -ge 2 ]; then serve other "$2"; names="$names other"; fi

run() { # name, pattern, depth, further options
    name=$1 pattern=$2 depth=$3
    shift 3
    fio --name="$name" --ioengine=nbd --uri="nbd+unix:///?socket=$directory/$name.sock" --size=64m \
        --rw="$pattern" --iodepth="$depth" --lat_percentiles=1 --output-format=json "$@" 2>/dev/null
}

for name in $names; do run "$name" write 4 --bs=1m >/dev/null; done
for pattern in randread randwrite; do
    for depth in $depths; do
        for turn in $(seq "$turns"); do
            # Each turn begins with another server.
            for name in $(echo $names $names | tr ' ' '\n' | tail -n +$((turn % $(echo $names | wc -w) + 1)) | head -n "$(echo $names | wc -w)"); do
                run "$name" $pattern "$depth" --bs=4k --time_based --runtime="$runtime" |
                    sed -n '/^{/,$p' >"$directory/result"
                python3 - "$turn" "$name" "$pattern" "$depth" "$directory/result" >>"$directory/results" <<'END'
import json, sys
job = json.load(open(sys.argv[5]))["jobs"][0]
side = job["write" if "write" in sys.argv[3] else "read"]
print(*sys.argv[1:5], side["iops"], side["lat_ns"]["percentile"]["50.000000"])
END
            done
        done
    done
done
python3 - "$directory/results" <<'END'
import statistics, sys
rows = {}
for line in open(sys.argv[1]):
    turn, name, pattern, depth, iops, response_ns = line.split()
    rows.setdefault((pattern, int(depth)), {}).setdefault(name, []).append((float(iops), float(response_ns) / 1e3))
names = [name for name in ("faults", "other") if name in next(iter(rows.values()))]
print("| requests, depth | without faults: IOPS, p50 us | " + " | ".join(f"{name}: IOPS, p50 us | IOPS of a turn to those without faults" for name in names) + " |")
print("| --- " * (2 + 2 * len(names)) + "|")
for (pattern, depth), by in rows.items():
    median = lambda name, column: statistics.median(run[column] for run in by[name])
    cells = [f"{pattern}, {depth}", f"{median('plain', 0):,.0f}, {median('plain', 1):.1f}"]
    for name in names:
        ratios = sorted(run[0] / plain[0] for run, plain in zip(by[name], by["plain"]))
        cells.append(f"{median(name, 0):,.0f}, {median(name, 1):.1f}")
        cells.append(f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")
    print("| " + " | ".join(cells) + " |")
END
