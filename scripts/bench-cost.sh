#!/usr/bin/env bash
# The cost of measuring: processor time, system calls and context switches per request of `seeklab bench`, and processor time
# of fio and of t/io_uring of its source package, in turns. At the end the system calls of fio over NBD, which strace counts (and
# slows, so no time is taken there). Usage: scripts/bench-cost.sh [PAIRS] [SECONDS]. Needs fio and jq, strace for those calls, and
# root for the loop device over tmpfs. t/io_uring is built in a temporary folder from the source of the installed fio: from the
# folder FIO_SOURCE, or from Debian's archive (DEB_MIRROR); without either, it is left out. SEEKLAB is a binary to use as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-5} seconds=${2:-5}
[ -n "${SEEKLAB-}" ] || cargo build --release --quiet -p seeklab
seeklab=${SEEKLAB-target/release/seeklab}
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
    fio --name=x --thread --group_reporting --time_based --runtime="$seconds" --rw=randread --bs=4k --output-format=json "$@" >"$work/fio.txt"
    # Engines may print lines before the document.
    sed -n '/^{/,$p' "$work/fio.txt" >"$work/fio.json"
    jq -r --argjson s "$seconds" '.jobs[0] | (.read.total_ios) as $n | ((.usr_cpu + .sys_cpu) / 100 * .job_runtime / 1000 * 1e6 / $n)' "$work/fio.json"
}
# System calls per request of fio over NBD, those of its begin and end included.
fio_calls() {
    strace -f -c -o "$work/calls.txt" fio --name=x --thread --time_based --runtime="$seconds" --rw=randread --bs=4k --output-format=json \
        --output="$work/fio.json" --ioengine=nbd --uri="$uri" --size=512m --iodepth=32 >/dev/null
    # The row of the sum ends in `total`; its fourth column are the calls.
    awk -v n="$(sed -n '/^{/,$p' "$work/fio.json" | jq '.jobs[0].read.total_ios')" '$NF == "total" { printf "%.2f\n", $4 / n }' "$work/calls.txt"
}
ours() {
    "$seeklab" bench "$@" --duration "${seconds}s" --interval 0s --json >"$work/ours.json"
    jq -r '.cost | "\(.cpu_us_per_request) \(.system_calls_per_request) \(.context_switches_per_request)"' "$work/ours.json"
}

# Fetches fio's source package of the version that is installed, and builds t/io_uring.
build_io_uring() {
    local source=${FIO_SOURCE-}
    if [ -z "$source" ]; then
        local keys=/usr/share/keyrings/debian-archive-keyring.gpg release
        release=$(. /etc/os-release && echo "$VERSION_CODENAME")
        mkdir -p "$work/lists/partial" "$work/source"
        echo "deb-src [signed-by=$keys] ${DEB_MIRROR-http://deb.debian.org/debian} $release main" >"$work/source.list"
        local options=(-o "Dir::Etc::sourcelist=$work/source.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists")
        (cd "$work/source" && apt-get -qq "${options[@]}" update && apt-get -qq "${options[@]}" source --download-only fio &&
            tar xf fio_*.orig.tar.*) >"$work/source.log" 2>&1 || return 1
        source=$(echo "$work"/source/fio-*/)
    fi
    cp -r "$source" "$work/fio" && (cd "$work/fio" && ./configure && make t/io_uring) >"$work/build.log" 2>&1
}
# us of processor time per request: of the whole process, over the reads that the kernel counts of the device. $2: 1 keeps times.
io_uring_cost() {
    local times reads before
    read -r before _ <"/sys/block/${1##*/}/stat"
    times=$({ TIMEFORMAT='%U %S'; time "$work/fio/t/io_uring" -r "$seconds" -d 32 -s 16 -c 8 -b 4096 -p 0 -B 1 -F 1 -O 1 -R 1 -X 0 -n 1 -t "$2" "$1" \
        >"$work/io_uring.txt" 2>&1; } 2>&1)
    read -r reads _ <"/sys/block/${1##*/}/stat"
    echo "$times" | awk -v n=$((reads - before)) '{ printf "%.3f\n", ($1 + $2) * 1e6 / n }'
}

has_io_uring=
! build_io_uring || has_io_uring=yes
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
        [ -z "$has_io_uring" ] || echo "$pair     t/io_uring   $(ours "$device" -w "$load" --batch 8)   $(io_uring_cost "$device" 0), $(io_uring_cost "$device" 1) with times"
        echo "$pair     polled       $(ours "$device" -w "$load" --batch 8 --poll submission)   -"
        echo "$pair     psync        $(ours "psync:$device" -w random,size=4KiB,read=100%,closed=1)   $(fio_cost --ioengine=psync --direct=1 --filename="$device")"
    fi
done
! command -v strace >/dev/null || echo "fio over NBD: $(fio_calls) system calls per request"
