#!/bin/sh
# Cuts the power under PostgreSQL: what an honest disk keeps, and what unsafe settings and a disk that loses flushes lose.
# Usage: run.sh [POINTS] [SEEKLAB]; needs root. PostgreSQL is installed from Debian's package if it is missing.
# Environment: TRANSACTIONS is the number of transactions.
set -u
here=$(cd "$(dirname "$0")" && pwd)
points=${1:-100}
seeklab=${2:-seeklab}
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 ||
    apt-get install --yes --no-install-recommends postgresql >&2 || exit 2
# The settings of the server are in $1, the options of seeklab in $2.
cut() {
    printf '\n## %s %s\n' "${1:-default settings}" "$2"
    # shellcheck disable=SC2086 # the options are several words, or none
    SETTINGS=$1 "$seeklab" crash cheetah-36es --size 512MiB --user postgres --points "$points" --check-timeout 300s $2 \
        --setup "$here/setup.sh" --check "$here/check.sh" -- "$here/load.sh"
    [ $? -le 1 ] || exit 2
}
cut "" ""
cut "full_page_writes=off" ""
cut "fsync=off" ""
cut "" "--fault lost_flush"
