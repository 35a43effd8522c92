#!/bin/sh
# Checks after a cut of the power: the server recovers, every promised transaction is there, all are whole, and every page has the
# checksum that belongs to it. Exit codes: 0 it is so, 1 a promised transaction is missing, 3 the database is not sound.
set -u
. "$(dirname "$0")/common.sh"
unsound() {
    echo "the database is not sound: $1"
    exit 3
}
# A server that was running at the cut has left the file of its process.
rm -f data/postmaster.pid
start fsync=off >/dev/null 2>&1 || unsound "$(grep -aE 'PANIC|FATAL|ERROR|WARNING' data/server.log | tail -1)"
committed=$(psql --quiet --no-psqlrc --no-align --tuples-only --command='select number from committed order by number' 2>&1) ||
    unsound "$committed"
# Each transaction changes 50 accounts.
whole=$(psql --quiet --no-psqlrc --no-align --tuples-only \
    --command='select (select sum(changes) from accounts) = 50 * (select count(*) from committed)' 2>&1) || unsound "$whole"
[ "$whole" = t ] || unsound "transactions are there in part"
stop >/dev/null 2>&1 || unsound "$(tail -1 data/server.log)"
sums=$("$bin/pg_checksums" --check --pgdata=data 2>&1) || unsound "$(echo "$sums" | head -1)"
missing=0
first=
while read -r number; do
    if ! echo "$committed" | grep -qx "$number"; then
        missing=$((missing + 1))
        first=${first:-$number}
    fi
done <"$SEEKLAB_ACKED"
if [ "$missing" -gt 0 ]; then
    echo "of $(wc -l <"$SEEKLAB_ACKED") promised transactions $missing are missing, the first is $first"
    exit 1
fi
