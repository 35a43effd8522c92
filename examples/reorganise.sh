#!/bin/sh
# Section 4 of Thornock, Tu and Flanagan (1997): what is gained by moving the hottest blocks to the outer edge of a
# disk? Per day of a trace: total service time, seek distance and the share of requests without a seek, before and
# after, and the share of queueing, which limits the gain.
#
#   examples/reorganise.sh [TRACE [DEVICE...]]
#
# TRACE: any trace [default: the week of the HP workstation `hplajw`]. DEVICE: catalog names, descriptions, and `fit:MODEL` for
# a clone fitted to the trace itself [default: hp-c2247a fit:station fit:plain]. Settings: HOTTEST (1000), BLOCK (4KiB, the
# paper's eight sectors), DAYS (7), DISK (0, device of the trace), OUT (reorganise-out: traces, results.json, report.md), SEEKLAB (the program).
#
# Two ways of knowing what is hot: from the whole trace, as in the paper, which no one knows beforehand; and from the
# day before, which one does. As in the paper, service time includes queueing; its share in the queue is a column of its own.
set -eu
cd "$(dirname "$0")/.."
trace=${1:-../shared/traces/hpl-srt-ajw/ajw.1week.srt.zst}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- hp-c2247a fit:station fit:plain
if [ ! -e "$trace" ]; then
    echo "error: $trace: there is no trace" >&2
    echo 'hint: reference traces do not lie in the repository (docs/testing.md); examples/office-server.csv.zst does' >&2
    exit 2
fi
out=${OUT:-reorganise-out}
if [ -z "${SEEKLAB:-}" ]; then
    cargo build --quiet --release
    SEEKLAB=${CARGO_TARGET_DIR:-target}/release/seeklab
fi
mkdir -p "$out"
export SEEKLAB HOTTEST="${HOTTEST:-1000}" BLOCK="${BLOCK:-4KiB}" DAYS="${DAYS:-7}" DISK="${DISK:-0}"
exec python3 examples/reorganise.py "$trace" "$out" "$@"
