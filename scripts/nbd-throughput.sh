#!/bin/sh
# IOPS and median response time of the NBD frontend without a model, beside nbdkit's memory plugin, under
# fio's nbd engine: interleaved pairs of 4 KiB random reads and writes on a unix socket.
# Needs fio, nbdkit, python3. PAIRS, RUNTIME (seconds) and DEPTHS can be set.
set -eu
pairs=${PAIRS:-5} runtime=${RUNTIME:-2} depths=${DEPTHS:-1 32 256}
cd "$(dirname "$0")/.."
cargo build --quiet --release -p seeklab-emulator --example nbd_memory
server=${CARGO_TARGET_DIR:-target}/release/examples/nbd_memory
directory=$(mktemp -d)
"$server" "unix:$directory/seeklab.sock" 1024 >/dev/null & seeklab=$!
nbdkit -f -U "$directory/nbdkit.sock" memory 1G & nbdkit=$!
trap 'kill $seeklab $nbdkit; rm -rf "$directory"' EXIT
while ! { [ -S "$directory/seeklab.sock" ] && [ -S "$directory/nbdkit.sock" ]; }; do sleep 0.1; done

run() { # name, pattern, depth, further options
    name=$1 pattern=$2 depth=$3
    shift 3
    fio --name="$name" --ioengine=nbd --uri="nbd+unix:///?socket=$directory/$name.sock" --size=64m \
        --rw="$pattern" --iodepth="$depth" --lat_percentiles=1 --output-format=json "$@" 2>/dev/null
}

for name in seeklab nbdkit; do run $name write 4 --bs=1m >/dev/null; done
for pattern in randread randwrite; do
    for depth in $depths; do
        for _ in $(seq "$pairs"); do
            for name in seeklab nbdkit; do
                run $name $pattern "$depth" --bs=4k --time_based --runtime="$runtime" |
                    sed -n '/^{/,$p' >"$directory/result"
                python3 - "$name" "$pattern" "$depth" "$directory/result" >>"$directory/results" <<'END'
import json, sys
job = json.load(open(sys.argv[4]))["jobs"][0]
side = job["write" if "write" in sys.argv[2] else "read"]
print(*sys.argv[1:4], side["iops"], side["lat_ns"]["percentile"]["50.000000"])
END
            done
        done
    done
done
python3 - "$directory/results" <<'END'
import statistics, sys
rows = {}
for line in open(sys.argv[1]):
    name, pattern, depth, iops, response_ns = line.split()
    rows.setdefault((pattern, int(depth)), {}).setdefault(name, []).append((float(iops), float(response_ns)))
print("pattern    depth  seeklab_iops  nbdkit_iops  ratio_median  seeklab_p50_us  nbdkit_p50_us  pairs_won")
for (pattern, depth), by in rows.items():
    iops = {name: [run[0] for run in runs] for name, runs in by.items()}
    p50 = {name: statistics.median(run[1] for run in runs) / 1e3 for name, runs in by.items()}
    pairs = list(zip(iops["seeklab"], iops["nbdkit"]))
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    won = sum(ours > theirs for ours, theirs in pairs)
    print(f"{pattern:10} {depth:5} {statistics.median(iops['seeklab']):13.0f} {statistics.median(iops['nbdkit']):12.0f}"
          f" {ratio:13.2f} {p50['seeklab']:15.1f} {p50['nbdkit']:14.1f} {won:6}/{len(pairs)}")
END
