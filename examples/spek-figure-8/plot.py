#!/usr/bin/env python3
"""Plots the throughput of the requests that were carried out, over time, of several traces in one picture.

Usage: plot.py PICTURE.svg NAME=TRACE.csv...
"""
import csv
import sys

INTERVAL_S = 0.25
END_S = 30
BLOCK = 512
COLOURS = ["#4269d0", "#efb118"]
LEFT, RIGHT, TOP, BOTTOM = 70, 690, 44, 330
# Start and end of the errors, and their names.
BANDS = [(15, 20, "correctable errors, 50 %"), (25, 30, "sticky errors")]


def throughput(path):
    """Returns MB per second in each interval."""
    sums = [0] * int(END_S / INTERVAL_S)
    with open(path, newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        for row in rows:
            place = int(int(row["completion_ns"]) / 1e9 / INTERVAL_S)
            if row["status"] in ("ok", "recovered") and place < len(sums):
                sums[place] += int(row["blocks"]) * BLOCK
    return [count / INTERVAL_S / 1e6 for count in sums]


def main():
    picture, *named = sys.argv[1:]
    curves = [(name, throughput(path)) for name, path in (text.split("=", 1) for text in named)]
    top = max(max(values) for _, values in curves) * 1.15
    x = lambda seconds: LEFT + (RIGHT - LEFT) * seconds / END_S
    y = lambda value: BOTTOM - (BOTTOM - TOP) * value / top
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 380" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15">Sequential reads of 8 KiB under disk errors (SPEK, figure 8)</text>',
    ]
    for begin, end, name in BANDS:
        lines.append(
            f'<rect x="{x(begin):.1f}" y="{TOP}" width="{x(end) - x(begin):.1f}" height="{BOTTOM - TOP}" fill="#f6e3e3"/>'
        )
        lines.append(f'<text x="{(x(begin) + x(end)) / 2:.1f}" y="{TOP + 14}" text-anchor="middle" font-size="9">{name}</text>')
    for value in range(0, int(top) + 1, 2):
        lines.append(f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value}</text>')
    for seconds in range(0, END_S + 1, 5):
        lines.append(f'<text x="{x(seconds):.1f}" y="{BOTTOM + 16}" text-anchor="middle">{seconds}</text>')
    lines.append(f'<text x="{(LEFT + RIGHT) / 2}" y="368" text-anchor="middle">time, s</text>')
    lines.append(
        f'<text transform="translate(22 {(TOP + BOTTOM) / 2}) rotate(-90)" text-anchor="middle">throughput of carried-out reads, MB/s</text>'
    )
    for index, (name, values) in enumerate(curves):
        points = []
        for place, value in enumerate(values):
            points += [(x(place * INTERVAL_S), y(value)), (x((place + 1) * INTERVAL_S), y(value))]
        text = " ".join(f"{at:.1f},{height:.1f}" for at, height in points)
        dash = ' stroke-dasharray="5 3"' if index else ""
        lines.append(f'<polyline points="{text}" fill="none" stroke="{COLOURS[index]}" stroke-width="2"{dash}/>')
        lines.append(
            f'<text x="{RIGHT}" y="{22 + 14 * index - 4}" text-anchor="end" fill="{COLOURS[index]}">{name}</text>'
        )
    with open(picture, "w") as file:
        file.write("\n".join(lines) + "\n</svg>\n")
    for name, values in curves:
        mean = lambda begin, end: sum(values[int(begin / INTERVAL_S) : int(end / INTERVAL_S)]) / ((end - begin) / INTERVAL_S)
        parts = [("before", 5, 15), ("correctable", 15, 20), ("after", 20, 25), ("sticky", 26, 30)]
        print(name, *(f"{part} {mean(begin, end):.2f} MB/s" for part, begin, end in parts), sep=", ")


if __name__ == "__main__":
    main()
