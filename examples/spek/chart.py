"""Line charts in SVG for the figures of SPEK."""

LEFT, RIGHT, TOP, BOTTOM = 70, 690, 44, 330
COLOURS = ["#4269d0", "#b7791f", "#d1495b", "#3ca951"]


def step(top):
    """Distance between lines of the grid: 1, 2 or 5 times a power of ten, at most eight of them up to `top`."""
    size = 10.0 ** -3
    while True:
        for factor in (1, 2, 5):
            if top / (size * factor) <= 8:
                return size * factor
        size *= 10


def ticks(top):
    size = step(top)
    return [size * index for index in range(int(top / size) + 1)]


def write(path, title, across, up, series, names=None):
    """Writes a chart of `series`, a list of (name, points of (x, y), whether the line is dashed). `across` and `up` say what the axes
    show. `names` are the labels of x = 0, 1, 2, ..., if x is no number."""
    right = max(x for _, points, _ in series for x, _ in points) or 1
    top = max(y for _, points, _ in series for _, y in points) * 1.15 or 1
    at_x = lambda value: LEFT + (RIGHT - LEFT) * value / right
    at_y = lambda value: BOTTOM - (BOTTOM - TOP) * value / top
    text = lambda x, y, anchor, words: f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 380" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{title}</text>',
    ]
    for value in ticks(top):
        lines.append(f'<line x1="{LEFT}" x2="{RIGHT}" y1="{at_y(value):.1f}" y2="{at_y(value):.1f}" stroke="#ddd"/>')
        lines.append(text(LEFT - 6, at_y(value) + 4, "end", f"{value:,.10g}"))
    for value, name in enumerate(names) if names else ((value, f"{value:.10g}") for value in ticks(right)):
        # Many names are on two lines, in turn.
        drop = 14 * (value % 2) if names and len(names) > 4 else 0
        lines.append(text(at_x(value), BOTTOM + 16 + drop, "middle", name))
    lines.append(text((LEFT + RIGHT) / 2, 374, "middle", across))
    lines.append(f'<text transform="translate(18 {(TOP + BOTTOM) / 2}) rotate(-90)" text-anchor="middle">{up}</text>')
    for index, (name, points, dashed) in enumerate(series):
        colour, dash = COLOURS[index % len(COLOURS)], ' stroke-dasharray="5 3"' if dashed else ""
        path_of = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in points)
        lines.append(f'<polyline points="{path_of}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        lines.append(f'<text x="{RIGHT}" y="{TOP - 26 + 15 * index}" text-anchor="end" fill="{colour}">{name}</text>')
    path.write_text("\n".join(lines) + "\n</svg>\n", encoding="utf-8")
