#!/usr/bin/env bash
# Makes examples/office-server.csv.zst: the block requests of a small server on an ext4 file system, as
# the kernel issued them to a loop device. Needs root, loop devices, tracefs, python3, zstd, git, sqlite3
# (python's). Everything made on the way is removed on every exit.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
tracing=/sys/kernel/tracing
loop='' mounted=''
cleanup() {
    [ -n "$loop" ] && echo 0 >"$tracing/tracing_on" || true
    echo 0 >"$tracing/events/block/enable" 2>/dev/null || true
    [ -n "$mounted" ] && umount "$work/mnt" || true
    [ -n "$loop" ] && losetup -d "$loop" || true
    rm -rf "$work"
}
trap cleanup EXIT INT TERM
mountpoint -q "$tracing" || mount -t tracefs tracefs "$tracing"

truncate -s 900M "$work/disk.img"
mkfs.ext4 -q -F "$work/disk.img"
mkdir "$work/mnt"
loop=$(losetup --find --show --direct-io=on "$work/disk.img" 2>/dev/null || losetup --find --show "$work/disk.img")
mount "$loop" "$work/mnt"
mounted=yes
device=$(lsblk -no MAJ:MIN "$loop" | tr -d ' ' | head -n 1)

echo 65536 >"$tracing/buffer_size_kb"
echo >"$tracing/trace"
echo mono >"$tracing/trace_clock"
for event in block_rq_issue block_rq_complete block_io_start block_bio_queue; do
    [ -e "$tracing/events/block/$event/enable" ] && echo 0 >"$tracing/events/block/$event/enable"
done
echo 1 >"$tracing/events/block/block_rq_issue/enable"
echo 1 >"$tracing/events/block/block_rq_complete/enable"
echo 1 >"$tracing/tracing_on"

python3 scripts/office_server.py "$work/mnt"
sync
echo 0 >"$tracing/tracing_on"
cp "$tracing/trace" "$work/trace.txt"
python3 scripts/tracefs_to_csv.py "$work/trace.txt" "$device" | zstd -q -19 -f -o examples/office-server.csv.zst
ls -l examples/office-server.csv.zst
