#!/bin/sh
# Figure 8 of SPEK (He 2005): the throughput of sequential reads under transient and then sticky disk errors, with a client
# that sends failed requests again. Runs it simulated, then emulated over NBD for 30 seconds, and plots both.
# Usage: run.sh [FOLDER] [SEEKLAB]; needs Python 3. Writes simulated.csv, emulated.csv and figure-8.svg into FOLDER [default: .].
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-.}
seeklab=${2:-seeklab}
mkdir -p "$folder"
# 8 KiB in 0.846 ms are the 9.68 MB/s of the paper without faults.
device="constant --set service_time=0.846ms --faults $here/faults.toml"
# shellcheck disable=SC2086 # the device is a name and its options
"$seeklab" simulate $device --workload sequential,size=8KiB,read=100%,requests=27300 --closed 4 --retries 9 \
    --out "$folder/simulated.csv" > "$folder/simulated.txt"
# A client that has gone ends the wait for the device below.
"$here/client.py" "$seeklab" "$folder/emulated.csv" $device
"$here/plot.py" "$folder/figure-8.svg" simulated="$folder/simulated.csv" emulated="$folder/emulated.csv"
