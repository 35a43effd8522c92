#!/bin/sh
# Changes accounts in every page of their table, one transaction after the other, with a checkpoint every ten. Promises each
# transaction once it is committed. Environment: SETTINGS of the server; TRANSACTIONS is the number of transactions.
set -eu
. "$(dirname "$0")/common.sh"
# shellcheck disable=SC2086 # several settings are several words
start ${SETTINGS:-}
number=0
while [ "$number" -lt "${TRANSACTIONS:-100}" ]; do
    number=$((number + 1))
    echo "begin;"
    echo "update accounts set changes = changes + 1 where id % 40 = $number % 40;"
    echo "insert into committed values ($number);"
    echo "commit;"
    printf '%s\n' "\\! echo $number >\"\$SEEKLAB_ACK\""
    [ $((number % 10)) -ne 0 ] || echo "checkpoint;"
done | psql --quiet --no-psqlrc --set=ON_ERROR_STOP=1
stop
