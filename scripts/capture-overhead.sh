#!/bin/sh
# What a live capture costs: fio on a loop device over tmpfs, with and without it, in interleaved pairs.
# As root, with fio. Settings: PAIRS (5), SECONDS_EACH (5), DEPTH (32), PATTERN (randread), RATE (IOPS that
# fio keeps to; none), OPTIONS (of the example block_capture, such as --no-queue-times).
# One line per pair: IOPS without, IOPS with, their ratio, events lost, processor seconds of the capture; then
# the median of the ratios.
set -eu
pairs=${PAIRS:-5} seconds=${SECONDS_EACH:-5} depth=${DEPTH:-32} pattern=${PATTERN:-randread}
cd "$(dirname "$0")/.."
cargo build --quiet --release --package seeklab-traces --example block_capture
capture=${CARGO_TARGET_DIR:-target}/release/examples/block_capture

work=$(mktemp -d)
device=
cleanup() {
    [ -z "$device" ] || losetup --detach "$device"
    ! mountpoint --quiet "$work" || umount "$work"
    rmdir "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP
mount -t tmpfs -o size=512m none "$work"
fallocate --length 256M "$work/disk"
device=$(losetup --find --show --direct-io=on "$work/disk" 2>/dev/null || losetup --find --show "$work/disk")

load() {
    "$@" fio --name=load --filename="$device" --rw="$pattern" --bs=4k --ioengine=io_uring --iodepth="$depth" \
        --direct=1 --runtime="$seconds" --time_based --minimal ${RATE:+--rate_iops=$RATE} 2>"$work/summary" |
        awk -F';' '{ print $8 + $49 }'
}

echo "pair  IOPS without  IOPS with  ratio  lost  processor s"
pair=1
while [ "$pair" -le "$pairs" ]; do
    if [ $((pair % 2)) -eq 1 ]; then
        without=$(load env)
        with=$(load "$capture" "$device" ${OPTIONS:-} --)
        cp "$work/summary" "$work/captured"
    else
        with=$(load "$capture" "$device" ${OPTIONS:-} --)
        cp "$work/summary" "$work/captured"
        without=$(load env)
    fi
    lost=$(awk '/lost_events/ { print $2 + 0 }' "$work/captured")
    used=$(awk '/of processor/ { print $1 }' "$work/captured")
    ratio=$(awk "BEGIN { printf \"%.3f\", $with / $without }")
    echo "$ratio" >>"$work/ratios"
    printf '%4s  %12s  %9s  %5s  %4s  %s\n' "$pair" "$without" "$with" "$ratio" "$lost" "$used"
    pair=$((pair + 1))
done
printf 'median ratio '
sort -n "$work/ratios" | awk '{ ratio[NR] = $1 } END { print ratio[int((NR + 1) / 2)] }'
