"use strict";
// The value of a series under the cursor, from the data of a chart alone: no page, no drawing.

// Point of `series` that holds at `x`; undefined where the series has no value. `chart.y.max` tells a distribution,
// which stays at the top of its axis, from a histogram, which ends. `scale` maps a value to its place on the axis.
function pointAt(series, x, chart, scale) {
  const { points, mark } = series;
  if (!points.length) return undefined;
  let next = points.findIndex((point) => point[0] > x);
  if (next < 0) next = points.length;
  switch (mark) {
    case "layer":
      // A level holds until the next one.
      return next > 0 && x <= points[points.length - 1][0] ? points[next - 1] : undefined;
    case "step":
    case "area": {
      // Nothing lies before the first bucket, nor behind the last one of a histogram.
      const isPastEnd = next === points.length && chart.y.max === null && points[next - 1][0] < x;
      return next === 0 || isPastEnd ? [x, 0] : points[next - 1];
    }
    case "line_and_points":
      // Marked points are all that was observed.
      return points.find((point) => point[0] === x);
    default: {
      const isNextNearer = next < points.length && next > 0 && scale(points[next][0]) - scale(x) < scale(x) - scale(points[next - 1][0]);
      const nearest = points[isNextNearer ? next : next - 1] ?? points[0];
      // A point of an interval holds in that interval; a curve holds from its first point to its last.
      const holds = series.interval === undefined
        ? x >= points[0][0] && x <= points[points.length - 1][0]
        : Math.abs(nearest[0] - x) <= series.interval / 2;
      return holds ? nearest : undefined;
    }
  }
}
