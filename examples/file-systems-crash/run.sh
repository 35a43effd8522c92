#!/bin/sh
# Cuts the power under PostMark on ext4, xfs and btrfs: is each file system mounted again, sound, and with the files that were
# synced? Usage: run.sh [POINTS] [SEEKLAB]; needs root, PostMark and the programs of the file systems.
# Environment: FILE_SYSTEMS are those that run; ROUNDS is the number of runs of PostMark.
set -u
here=$(cd "$(dirname "$0")" && pwd)
points=${1:-100}
seeklab=${2:-seeklab}
cut() {
    printf '\n## %s\n' "$*"
    fs=$1
    shift
    "$seeklab" crash cheetah-36es --size 512MiB --fs "$fs" --points "$points" "$@" --check "$here/check.sh" -- "$here/load.sh"
    [ $? -le 1 ] || exit 2
}
for fs in ${FILE_SYSTEMS:-ext4 xfs btrfs}; do
    # A disk that writes 4KiB as a whole, and one that may tear them.
    cut "$fs" --set power_loss.atomic_unit=4KiB
    cut "$fs"
done
cut ext4 --mount-options barrier=0 --legal 1
