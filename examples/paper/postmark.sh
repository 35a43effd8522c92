#!/bin/sh
# PostMark on disks that exist and on disks that do not: Griffin 2004, section 6.2.1, table 6.2.
#     examples/paper/postmark.sh [--full | --tiny] [FLAGS OF seeklab run ...]
# PostMark (Debian's package) with its own defaults (500 files of 500 bytes to 9.77 KiB) on ext2 mounted
# synchronously, on cheetah-36es, the same at 50,000 rpm, and a device that takes no time.
# By default 500 transactions, three repetitions: some 2 minutes. --full: ten repetitions of 2,500
# transactions. --tiny: 50 files, 50 transactions, once: seconds.
# Needs root, FUSE, loop devices and postmark. Leaves postmark.html, postmark.json, and prints the tables.
set -eu
. "$(dirname "$0")/common.sh"
needs postmark postmark
files=500 transactions=500 repeat=3
case ${1-} in
    --full) shift; transactions=2500 repeat=10 ;;
    --tiny) shift; files=50 transactions=50 repeat=1 ;;
esac
config=$work/postmark.config
printf 'set number %s\nset transactions %s\nset seed 42\nrun\nquit\n' "$files" "$transactions" > "$config"
chmod 755 "$work" && chmod 644 "$config"
experiment postmark --fs ext2 --mount-options sync --size 4GiB --repeat "$repeat" "$@" -- postmark "$config"
