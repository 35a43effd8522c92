#!/bin/sh
# Checks after a cut of the power that every promised file is there. Exit code 1: one is not.
while read -r number; do
    if [ "$(cat "promise$number" 2>/dev/null)" != "promise $number" ]; then
        echo "promise$number was synced, and is not as it was"
        exit 1
    fi
done <"$SEEKLAB_ACKED"
