#!/usr/bin/env python3
"""Share of the change of a trace that its own records explain: a bound beside the models, from another learner.

    scripts/explained.py TRACE [TRACE ...] [--device N] [--format-option NAME=VALUE] [--seed N]

A forest of randomised trees [Geurts06; scikit-learn] learns the distribution of response times from everything known of a
request at its arrival, *as measured*: queue, blocks in the queue, distance, streams, idle time, the last response times, loads
of the last 1, 100 and 1000 ms, place. So the forest has the state of the real device, which no clone has. The columns are
demerits up to the 99th percentile, in percent of the measured mean, as in `seeklab fit`:

change              the times of the first half of the time against those of the second
requests only       fitted to the first half without answers of the device: requests and their times of arrival alone
also past answers   fitted to the first half, predicts the second
same half           fitted to every other 200 requests of the second half, predicts the others: a bound for any model
                    of the recorded properties

A large `same half` means that the recorded properties do not explain the times. A small `same half` beside a large
`also past answers` means that they do not explain the change. A small `also past answers` beside a large `requests only` means
that only the answers of the device show the change. Needs numpy, pandas and scikit-learn; reads what `seeklab trace convert` writes.
Settings: SEEKLAB (the program).

P. Geurts, D. Ernst, L. Wehenkel, Extremely randomized trees, Machine Learning 63, 2006.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TREES = 50
LEAF = 20
PIECE = 200


def read(seeklab, trace, device, format_options):
    """The requests of one device with a response time, and their properties known at arrival."""
    import numpy as np
    import pandas as pd

    with tempfile.TemporaryDirectory() as folder:
        csv = Path(folder, "trace.csv")
        options = [part for option in format_options for part in ("--format-option", option)]
        done = subprocess.run([seeklab, "trace", "convert", trace, csv, *options], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"error: {trace}: {done.stderr.strip()}")
        rows = pd.read_csv(csv, comment="#", low_memory=False)
    rows = rows[(rows.device == device) & rows.completion_ns.notna() & (rows.status == "ok")]
    if len(rows) < 4 * PIECE:
        sys.exit(f"error: {trace}: device {device} has {len(rows)} requests with response times; at least {4 * PIECE} are needed")
    rows = rows.sort_values("arrival_ns", kind="stable").reset_index(drop=True)
    arrival, completion = rows.arrival_ns.to_numpy(), rows.completion_ns.to_numpy()
    lbn, blocks = rows.lbn.fillna(0).to_numpy(), rows.blocks.fillna(0).to_numpy()
    response = (completion - arrival) / 1e6
    order = np.argsort(completion, kind="stable")
    done = np.searchsorted(completion[order], arrival, side="right")
    last, log = np.maximum(done - 1, 0), np.log2(np.maximum(response, 1e-3))[order]
    summed = np.concatenate([[0], np.cumsum(log)])
    arrived = np.concatenate([[0], np.cumsum(blocks)])
    served = np.concatenate([[0], np.cumsum(blocks[order])])
    number, end = np.arange(len(rows)), lbn + blocks
    stream = np.full(len(rows), 1e12)
    for back in range(1, 33):
        stream[back:] = np.minimum(stream[back:], np.abs(lbn[back:] - end[:-back]))
    step = np.diff(lbn, prepend=lbn[0])
    requested = [rows.op == "read", rows.op == "flush", blocks, lbn, np.sign(step) * np.log2(np.abs(step) + 1),
                 np.log2(stream + 1), np.log2(np.diff(arrival, prepend=arrival[0]) + 1)]
    for window in (1e6, 1e8, 1e9):
        requested.append(arrived[number] - arrived[np.searchsorted(arrival, arrival - window)])
    answered = [number - done, arrived[number] - served[done], log[last],
                np.log2(np.maximum(arrival - completion[order][last], 0) + 1)]
    for count in (4, 16, 64):
        answered.append((summed[last + 1] - summed[np.maximum(last + 1 - count, 0)]) / count)
    state = np.column_stack([np.asarray(column, dtype=float) for column in (*requested, *answered)])
    return arrival, response, state, len(requested)


def demerit(measured, predicted):
    """Root mean square distance of the quantiles to the 99th percentile, in percent of the measured mean."""
    import numpy as np

    shares = (np.arange(9_900) + 0.5) / 10_000
    one, other = np.quantile(measured, shares), np.quantile(predicted, shares)
    return 100 * np.sqrt(((one - other) ** 2).mean()) / one.mean()


def drawn(fitted, states, seed):
    """A response time for each state, drawn from those of its leaf."""
    import numpy as np
    from sklearn.ensemble import ExtraTreesRegressor

    (state, response), stream = fitted, np.random.default_rng(seed)
    forest = ExtraTreesRegressor(TREES, min_samples_leaf=LEAF, max_features=0.5, random_state=seed)
    forest.fit(state, np.log2(response + 1e-4))
    homes, leaves = forest.apply(state), forest.apply(states)
    predicted, tree = np.empty(len(states)), stream.integers(0, TREES, len(states))
    for index in range(TREES):
        here = tree == index
        order = np.argsort(homes[:, index], kind="stable")
        sorted_homes = homes[order, index]
        first = np.searchsorted(sorted_homes, leaves[here, index])
        after = np.searchsorted(sorted_homes, leaves[here, index], side="right")
        predicted[here] = response[order[first + (stream.random(here.sum()) * (after - first)).astype(int)]]
    return predicted


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], epilog=__doc__.split("\n\n", 2)[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=Path, metavar="TRACE")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--format-option", action="append", default=[], metavar="NAME=VALUE",
                        help="reading of a trace that its format leaves open, as of `seeklab trace convert`")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    try:
        import numpy as np
        import pandas  # noqa: F401
        import sklearn  # noqa: F401
    except ImportError as missing:
        sys.exit(f"error: {missing.name} is missing\n\nhint: pip install numpy pandas scikit-learn")
    seeklab = os.environ.get("SEEKLAB", "seeklab")
    print(f"seed {options.seed}, {TREES} trees, leaves of {LEAF}\n\n| trace | requests | change | requests only | also past answers | same half |\n| --- | --- | --- | --- | --- | --- |")
    for trace in options.traces:
        print(f"explained: {trace} …", file=sys.stderr)
        arrival, response, state, of_requests = read(seeklab, trace, options.device, options.format_option)
        rest = arrival >= (arrival[0] + arrival[-1]) / 2
        if not rest.any() or rest.all():
            sys.exit(f"error: {trace}: one half of its time has no requests")
        every_other = (np.arange(rest.sum()) // PIECE) % 2 == 0
        requests_only = drawn((state[~rest, :of_requests], response[~rest]), state[rest, :of_requests], options.seed)
        past_answers = drawn((state[~rest], response[~rest]), state[rest], options.seed)
        same_half = drawn((state[rest][every_other], response[rest][every_other]), state[rest][~every_other], options.seed)
        figures = [demerit(response[rest], response[~rest]), demerit(response[rest], requests_only), demerit(response[rest], past_answers),
                   demerit(response[rest][~every_other], same_half)]
        print(f"| {trace.name} | {len(response)} | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |", flush=True)


if __name__ == "__main__":
    main()
