#!/bin/sh
# IOPS and median response time of `seeklab serve immediate` over NBD, beside nbdkit's memory plugin and (where
# it is installed) qemu-storage-daemon on a file in memory, under fio's nbd engine: interleaved turns of 4 KiB
# random reads and writes on unix sockets.
# Needs fio, nbdkit, python3. PAIRS, RUNTIME (seconds) and DEPTHS can be set.
set -eu
pairs=${PAIRS:-5} runtime=${RUNTIME:-2} depths=${DEPTHS:-1 32 256}
cd "$(dirname "$0")/.."
cargo build --quiet --release
directory=$(mktemp -d) memory=$(mktemp -d -p /dev/shm)
trap 'kill $servers; rm -rf "$directory" "$memory"' EXIT
"${CARGO_TARGET_DIR:-target}/release/seeklab" serve immediate --uncalibrated --size 1GiB \
    --nbd "unix:$directory/seeklab.sock" >/dev/null 2>&1 & servers=$!
nbdkit -f -U "$directory/nbdkit.sock" memory 1G & servers="$servers $!"
names="seeklab nbdkit"
if command -v qemu-storage-daemon >/dev/null; then
    truncate -s 1G "$memory/disk"
    qemu-storage-daemon --blockdev "driver=file,node-name=disk,filename=$memory/disk" \
        --nbd-server "addr.type=unix,addr.path=$directory/qsd.sock" \
        --export type=nbd,id=disk,node-name=disk,name=,writable=on & servers="$servers $!"
    names="$names qsd"
fi
for name in $names; do while ! [ -S "$directory/$name.sock" ]; do sleep 0.1; done; done

run() { # name, pattern, depth, further options
    name=$1 pattern=$2 depth=$3
    shift 3
    fio --name="$name" --ioengine=nbd --uri="nbd+unix:///?socket=$directory/$name.sock" --size=64m \
        --rw="$pattern" --iodepth="$depth" --lat_percentiles=1 --output-format=json "$@" 2>/dev/null
}

for name in $names; do run "$name" write 4 --bs=1m >/dev/null; done
for pattern in randread randwrite; do
    for depth in $depths; do
        for _ in $(seq "$pairs"); do
            for name in $names; do
                run "$name" $pattern "$depth" --bs=4k --time_based --runtime="$runtime" |
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
    rows.setdefault((pattern, int(depth)), {}).setdefault(name, []).append((float(iops), float(response_ns) / 1e3))
print("| requests, depth | seeklab: IOPS, p50 us | nbdkit | qemu-storage-daemon | IOPS to nbdkit's | p50 to nbdkit's | turns won |")
print("| --- | --- | --- | --- | --- | --- | --- |")
for (pattern, depth), by in rows.items():
    median = lambda name, column: statistics.median(run[column] for run in by[name])
    cell = lambda name: f"{median(name, 0):,.0f}, {median(name, 1):.1f}" if name in by else "not there"
    ratio = lambda column: statistics.median(a[column] / b[column] for a, b in zip(by["seeklab"], by["nbdkit"]))
    won = sum(a[0] > b[0] for a, b in zip(by["seeklab"], by["nbdkit"]))
    print(f"| {pattern}, {depth} | {cell('seeklab')} | {cell('nbdkit')} | {cell('qsd')} | {ratio(0):.2f} | {ratio(1):.2f} |"
          f" {won} of {len(by['seeklab'])} |")
END
