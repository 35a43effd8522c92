#!/bin/sh
# A program on a modelled disk without root, where FUSE may be used: the device as a file, an ext4 in it, mounted by
# fuse2fs in user space.
#     examples/without-root.sh DEVICE COMMAND...
#     examples/without-root.sh cheetah-36es tar xf ~/source.tar
# Says how long the command took and how exact the emulation was; its times include fuse2fs's, which is slower than
# the kernel's ext4 and writes otherwise. SIZE=256M and FLAGS='--pacing exact' may be set.
# Needs fuse3 (fusermount3), fuse2fs and e2fsprogs.
set -eu
[ $# -ge 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
device=$1
shift
PATH=$PATH:/usr/sbin:/sbin
for program in fusermount3 fuse2fs mkfs.ext4; do
    command -v $program > /dev/null || { echo "$program is missing: install fuse3, fuse2fs and e2fsprogs" >&2; exit 2; }
done
seeklab=${SEEKLAB:-$(dirname "$0")/../target/release/seeklab}
[ -x "$seeklab" ] || { echo "$seeklab is not there: cargo build --release" >&2; exit 2; }
work=$(mktemp -d)
mkdir "$work/disk" "$work/mount"
server=
finish() {
    ! mountpoint -q "$work/mount" || fusermount3 -u "$work/mount" || fusermount3 -uz "$work/mount"
    # fuse2fs writes the rest back after unmounting; the device is not needed once nobody has its file open.
    if [ -n "$filesystem" ]; then wait "$filesystem" || true; filesystem=; fi
    if [ -n "$server" ]; then kill "$server" 2> /dev/null || true; wait "$server" || true; server=; fi
}
filesystem=
trap 'finish; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

truncate -s "${SIZE:-256M}" "$work/image"
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$work/image" # in no model time
# shellcheck disable=SC2086
"$seeklab" serve "$device" --fuse "$work/disk" --size "$(stat -c %s "$work/image")B" --image "$work/image" \
    ${FLAGS-} > "$work/messages" &
server=$!
until grep -qs 'is ready' "$work/messages"; do
    kill -0 $server 2> /dev/null || exit 2 # with a message of its own
    sleep 0.1
done
fuse2fs -f -o fakeroot "$work/disk/disk" "$work/mount" > "$work/fuse2fs" 2>&1 &
filesystem=$!
until mountpoint -q "$work/mount"; do
    kill -0 $filesystem 2> /dev/null || { cat "$work/fuse2fs" >&2; exit 2; }
    sleep 0.1
done
begin=$(date +%s%N)
status=0
(cd "$work/mount" && SEEKLAB_MOUNT=$work/mount "$@") || status=$?
ran=$(date +%s%N)
finish
flushed=$(date +%s%N)
awk -v ran=$((ran - begin)) -v flush=$((flushed - ran)) -v status=$status \
    'BEGIN { printf "\nrun time  %.3f s, and %.3f s until all was on the device; exit code %d\n", ran / 1e9, flush / 1e9, status }'
sed -n '/requests in/,$p' "$work/messages"
exit $status
