#!/bin/sh
# A larger build that waits less for its disk: Griffin 2004, section 6.2.3, table 6.4 (Linux-build).
#     examples/paper/large-build.sh [--full] [FLAGS OF seeklab run ...]
# GNU bash from Debian's archive (PACKAGE=... for another), unpacked and configured beforehand in no model time
# (as the dissertation loads a disk image), then built on ext2 mounted synchronously, on cheetah-36es, the same
# at 50,000 rpm, and a device that takes no time. One repetition unless --full (ten). Needs root, FUSE, loop
# devices, a C compiler, make, and apt for the source. Leaves large-build.html, large-build.json, and prints
# the tables.
set -eu
. "$(dirname "$0")/common.sh"
needs make make
needs cc gcc
repeat=1
[ "${1-}" = --full ] && { shift; repeat=10; }
archive=$("$here/fetch-source.sh" "${PACKAGE:-bash}")
cp "$archive" "$work/" && chmod 755 "$work" && chmod 644 "$work"/*
export FORCE_UNSAFE_CONFIGURE=1 # as root, in a namespace of its own
unpack="tar xf $work/${archive##*/} && cd */ && { [ -x configure ] || tar xf *.tar.*; } && cd \"\$(dirname \"\$(find . -name configure | sort | head -n 1)\")\" && ./configure > /dev/null 2>&1"
experiment large-build --fs ext2 --mount-options sync --size 4GiB --repeat "$repeat" --setup "$unpack" \
    --phase make='cd "$(dirname "$(find . -name config.status | sort | head -n 1)")" && make > /dev/null 2>&1' "$@"
