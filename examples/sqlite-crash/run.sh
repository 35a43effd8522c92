#!/bin/sh
# Cuts the power under SQLite: which settings keep their promises on an honest disk, and what a disk that loses flushes does to
# them. Usage: run.sh [POINTS] [SEEKLAB]; needs root and Python 3.
set -u
here=$(cd "$(dirname "$0")" && pwd)
points=${1:-100}
seeklab=${2:-seeklab}
cut() {
    printf '\n## journal_mode=%s synchronous=%s %s\n' "$1" "$2" "${3:-}"
    JOURNAL=$1 SYNCHRONOUS=$2
    export JOURNAL SYNCHRONOUS
    # shellcheck disable=SC2086 # the fault is one option and its value, or nothing
    "$seeklab" crash cheetah-36es --size 256MiB --points "$points" ${3:-} --check "$here/check.py" -- "$here/load.py"
    [ $? -le 1 ] || exit 2
}
cut delete extra
cut truncate full
cut wal full
cut delete full
cut wal normal
cut delete off
cut delete extra "--fault lost_flush"
cut wal full "--fault lost_flush"
