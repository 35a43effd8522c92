#!/bin/sh
# Unpacking, configuring and building a source package: Griffin 2004, section 6.2.2, table 6.3 (SSH-build).
#     examples/paper/source-build.sh [--full] [FLAGS OF seeklab run ...]
# GNU hello from Debian's archive (PACKAGE=openssh for another) on ext2 mounted synchronously, unmounted between
# the phases, on cheetah-36es, the same at 50,000 rpm, and a device that takes no time. One repetition unless
# --full (ten). Needs root, FUSE, loop devices, a C compiler, make, and apt for the source.
# Leaves source-build.html, source-build.json, and prints the tables.
set -eu
. "$(dirname "$0")/common.sh"
needs make make
needs cc gcc
repeat=1
[ "${1-}" = --full ] && { shift; repeat=10; }
archive=$("$here/fetch-source.sh" "${PACKAGE:-hello}")
plain=$work/source.tar
case $archive in # The dissertation's archive is not compressed either.
    *.gz) gzip -dc "$archive" > "$plain" ;;
    *.xz) xz -dc "$archive" > "$plain" ;;
    *.bz2) bzip2 -dc "$archive" > "$plain" ;;
esac
chmod 755 "$work" && chmod 644 "$plain"
export FORCE_UNSAFE_CONFIGURE=1 # as root, in a namespace of its own
experiment source-build --fs ext2 --mount-options sync --size 4GiB --repeat "$repeat" \
    --phase unpack="tar xf $plain" \
    --phase configure='cd */ && ./configure > /dev/null 2>&1' \
    --phase make='cd */ && make > /dev/null 2>&1' "$@"
