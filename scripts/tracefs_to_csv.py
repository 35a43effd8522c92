"""Block events of tracefs as a canonical trace on stdout.

usage: tracefs_to_csv.py TRACE MAJOR:MINOR

A request is one block_rq_issue; its completion is the next block_rq_complete of the same device,
operation and first sector. Arrival is the issue: what the device sees. Times are relative to the first.
"""
import re
import sys

EVENT = re.compile(
    r"\s(\d+\.\d+): block_rq_(issue|complete): (\d+),(\d+) (\w+) .*?(\d+) \+ (\d+) "
)
trace, device = sys.argv[1:]
major, minor = device.split(":")
rows, waiting = [], {}
with open(trace, encoding="utf-8", errors="replace") as lines:
    for line in lines:
        event = EVENT.search(line)
        if not event or (event[3], event[4]) != (major, minor):
            continue
        seconds, microseconds = event[1].split(".")
        time_ns = int(seconds) * 10**9 + int(microseconds.ljust(9, "0")[:9])
        flags, sector, sectors = event[5], int(event[6]), int(event[7])
        if "D" in flags:
            op = "discard"
        elif "W" in flags and sectors:
            op = "write"
        elif "R" in flags:
            op = "read"
        else:
            op = "flush"
        key = (op, sector)
        if event[2] == "issue":
            # F after the operation letter is force unit access; F before it is a flush of its own.
            fua = op == "write" and "F" in flags[flags.index("W") + 1 :]
            rows.append([time_ns, None, op, fua, sector if sectors else 0, sectors])
            waiting.setdefault(key, []).append(rows[-1])
        elif op == "flush":
            # The kernel lets one flush stand for all that wait.
            for row in waiting.pop(key, []):
                row[1] = time_ns
        elif waiting.get(key):
            waiting[key].pop(0)[1] = time_ns
start = rows[0][0]
print("# block_size: 512B")
print("# clock: tracefs, loop device of a virtual machine, ext4")
print("# origin: scripts/capture-example.sh of seeklab")
print("arrival_ns,completion_ns,op,fua,lbn,blocks")
for issue, complete, op, fua, lbn, blocks in rows:
    if complete is not None:
        print(f"{issue - start},{complete - start},{op},{'true' if fua else 'false'},{lbn},{blocks}")
