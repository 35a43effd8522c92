#!/bin/sh
# What a live capture costs as its user sees it: run time of fixed work with and without it, in interleaved pairs, as
# Thornock, Tu and Flanagan state theirs (0.03 %). fio makes so many requests of a loop device over tmpfs.
# With FILE and DEVICE, of a file on a real device instead.
# As root, with fio. Settings: PAIRS (7), REQUESTS (400000), DEPTH (32), JOBS (1), PATTERN (randrw), RATE (IOPS
# that fio keeps to; none), OPTIONS (of seeklab capture, such as --no-queue-times), SEEKLAB (the program).
# One line per pair: seconds without and with, their ratio, requests captured, events lost, processor seconds of the
# capture; then the median of the ratios.
set -eu
pairs=${PAIRS:-7} requests=${REQUESTS:-400000} depth=${DEPTH:-32} pattern=${PATTERN:-randrw} jobs=${JOBS:-1}
cd "$(dirname "$0")/.."
if [ -z "${SEEKLAB:-}" ]; then
    cargo build --quiet --release
    SEEKLAB=${CARGO_TARGET_DIR:-target}/release/seeklab
fi
work=$(mktemp -d)
device=
cleanup() {
    [ -z "$device" ] || losetup --detach "$device"
    ! mountpoint --quiet "$work" || umount "$work"
    rmdir "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP
mount -t tmpfs -o size=1g none "$work"
if [ -n "${FILE:-}" ]; then
    target=$FILE captured_device=${DEVICE:?say which device FILE is on}
else
    fallocate --length 256M "$work/disk"
    device=$(losetup --find --show --direct-io=on "$work/disk" 2>/dev/null || losetup --find --show "$work/disk")
    target=$device captured_device=$device
fi

load() {
    "$@" fio --name=load --filename="$target" --rw="$pattern" --bs=4k --ioengine=io_uring --iodepth="$depth" \
        --numjobs="$jobs" --direct=1 --size=256m --io_size="$((requests * 4 / jobs))k" --norandommap \
        --group_reporting --minimal ${RATE:+--rate_iops=$RATE} 2>>"$work/errors" | awk -F';' '
        { reads = $9; writes = $50; print (reads > writes ? reads : writes) / 1e3 }'
}
with() {
    load "$SEEKLAB" capture "$captured_device" -o "$work/seen.parquet" ${OPTIONS:-} --
}
without() {
    load env
}

echo "pair  s without  s with  ratio"
pair=1
while [ "$pair" -le "$pairs" ]; do
    if [ $((pair % 2)) -eq 1 ]; then
        plain=$(without); captured=$(with | head -1)
    else
        captured=$(with | head -1); plain=$(without)
    fi
    ratio=$(awk "BEGIN { printf \"%.4f\", $captured / $plain }")
    echo "$ratio" >>"$work/ratios"
    printf '%4s  %9s  %6s  %s\n' "$pair" "$plain" "$captured" "$ratio"
    pair=$((pair + 1))
done
printf 'median ratio '
sort -n "$work/ratios" | awk '{ ratio[NR] = $1 } END { print ratio[int((NR + 1) / 2)] }'
"$SEEKLAB" trace info "$work/seen.parquet" | grep -E '^  (requests|capture.lost|capture.given)' | sed 's/^/last capture:/'
