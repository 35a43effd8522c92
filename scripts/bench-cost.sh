#!/usr/bin/env bash
# The cost of measuring: processor time, system calls and context switches per request of `seeklab bench`, and processor time
# of fio, in turns. Usage: scripts/bench-cost.sh [PAIRS] [SECONDS]. Needs fio and jq, and root for the loop device over tmpfs.
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-5} seconds=${2:-5}
cargo build --release --quiet -p seeklab
seeklab=target/release/seeklab
work=$(mktemp -d)
device= server=
cleanup() {
    [ -z "$server" ] || { kill "$server" && wait "$server" || true; }
    [ -z "$device" ] || losetup -d "$device"
    ! mountpoint -q "$work/tmpfs" || umount "$work/tmpfs"
    rm -rf "$work"
}
trap cleanup EXIT

# us of processor time per request: of fio, usr and sys of its one job.
fio_cost() {
    fio --name=x --thread --group_reporting --time_based --runtime="$seconds" --rw=randread --bs=4k --output-format=json "$@" >"$work/fio.json"
    jq -r --argjson s "$seconds" '.jobs[0] | (.read.total_ios) as $n | ((.usr_cpu + .sys_cpu) / 100 * .job_runtime / 1000 * 1e6 / $n)' "$work/fio.json"
}
ours() {
    "$seeklab" bench "$@" --duration "${seconds}s" --interval 0s --json >"$work/ours.json"
    jq -r '.cost | "\(.cpu_us_per_request) \(.system_calls_per_request) \(.context_switches_per_request)"' "$work/ours.json"
}

mkdir "$work/tmpfs"
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=600m none "$work/tmpfs"; then
    dd if=/dev/urandom of="$work/tmpfs/image" bs=1M count=512 status=none
    device=$(losetup -f --show --direct-io=on "$work/tmpfs/image")
fi
"$seeklab" serve immediate --uncalibrated --size 512MiB --nbd "unix:$work/disk.sock" >"$work/serve.log" 2>&1 &
server=$!
while ! [ -S "$work/disk.sock" ]; do sleep 0.1; done
uri="nbd+unix:///?socket=$work/disk.sock"
echo "pair  target       seeklab: us, calls, switches per request   fio: us per request"
for pair in $(seq "$pairs"); do
    load=random,size=4KiB,read=100%,closed=32
    echo "$pair     null         $(ours null -w "$load")   $(fio_cost --ioengine=null --iodepth=32 --size=1t)"
    echo "$pair     nbd          $(ours "$uri" -w "$load")   $(fio_cost --ioengine=nbd --uri="$uri" --size=512m --iodepth=32)"
    if [ -n "$device" ]; then
        echo "$pair     io_uring     $(ours "$device" -w "$load" --batch 8)   $(fio_cost --ioengine=io_uring --direct=1 --fixedbufs --registerfiles --iodepth=32 \
            --iodepth_batch_submit=16 --iodepth_batch_complete_min=8 --filename="$device")"
        echo "$pair     psync        $(ours "psync:$device" -w random,size=4KiB,read=100%,closed=1)   $(fio_cost --ioengine=psync --direct=1 --filename="$device")"
    fi
done
