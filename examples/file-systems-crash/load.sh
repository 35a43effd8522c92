#!/bin/sh
# PostMark in the working directory. Beside it, files are written one after the other, and each is promised when it and the folder
# are synced. Environment: ROUNDS is the number of runs of PostMark.
set -eu
mkdir postmark
(
    cd postmark
    round=0
    while [ "$round" -lt "${ROUNDS:-4}" ]; do
        round=$((round + 1))
        postmark >/dev/null <<END_OF_SCRIPT
set number 500
set transactions 4000
set size 500 50000
set seed $round
run
quit
END_OF_SCRIPT
    done
) &
postmark=$!
number=0
while kill -0 "$postmark" 2>/dev/null; do
    number=$((number + 1))
    echo "promise $number" >"promise$number"
    sync "promise$number" .
    echo "$number" >"$SEEKLAB_ACK"
done
wait "$postmark"
sync -f .
