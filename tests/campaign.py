"""A random campaign: many nasty problems, judged by code that shares nothing.

::

    python tests/campaign.py --seconds 600 --seed 0
    python tests/campaign.py --kind recombinations --cases 100000
    python tests/campaign.py --kind fits --replay 20000123

Problem number ``n`` is always the same; a run with ``--seed s`` takes the numbers from
``s`` times ten million on. A failure is one line with the number to replay. What is
judged, see `examine_fit`, `examine_source`, `examine_search` and `examine_cloud`; how,
see `campaign_judge`.
"""

import argparse
import itertools
import sys
import time
from collections import Counter

from campaign_clouds import examine_cloud
from campaign_fits import examine_fit
from campaign_searches import examine_search
from campaign_sources import examine_source
from threadpoolctl import threadpool_limits

SEEDS_PER_RUN = 10_000_000

KINDS = {
    "fits": examine_fit,
    "sources": examine_source,
    "searches": examine_search,
    "recombinations": examine_cloud,
}


def run(kind, seeds, seconds):
    """Examine problems until the time is over; print failures and a summary."""
    started = time.perf_counter()
    kinds, remarks, n_cases, n_failed = Counter(), Counter(), 0, 0
    for seed in seeds:
        if time.perf_counter() - started > seconds:
            break
        report = KINDS[kind](seed)
        n_cases += 1
        n_failed += bool(report.failures)
        for name, detail in report.failures:
            kinds[name] += 1
            print(
                f"{kind} --replay {seed}: {name}: {detail} | {report.remark}",
                flush=True,
            )
        if not report.failures and report.remark:
            remarks[report.remark] += 1
    print(
        f"{kind}: {n_cases} cases in {time.perf_counter() - started:.0f} s, "
        f"{n_failed} with failures {dict(kinds)}; {dict(remarks)}",
        flush=True,
    )
    return n_failed


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each kind")
    parser.add_argument("--cases", type=int, help="most problems of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", type=int, help="number of one problem")
    options = parser.parse_args(arguments)
    seeds = itertools.count(options.seed * SEEDS_PER_RUN)
    if options.replay is not None:
        seeds = [options.replay]
    elif options.cases is not None:
        seeds = itertools.islice(seeds, options.cases)
    kinds = options.kind or list(KINDS)
    # Kinds take turns in the same numbers, so each gets its own iterator.
    streams = itertools.tee(seeds, len(kinds))
    with threadpool_limits(1, user_api="blas"):
        failed = [
            run(kind, stream, options.seconds)
            for kind, stream in zip(kinds, streams, strict=True)
        ]
    return 1 if any(failed) else 0


if __name__ == "__main__":
    sys.exit(main())
