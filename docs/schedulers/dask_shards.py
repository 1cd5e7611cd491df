"""Dask: one state of each file, added up in file order wherever they are."""
import sys
from glob import glob

from dask.distributed import Client

import eigenstream as es


def scan(path):
    return es.scan(path, exclude="id", threads=1).to_bytes()


def add(one, other):
    return es.State.from_bytes(one).merge(es.State.from_bytes(other)).to_bytes()


if __name__ == "__main__":
    with Client(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as client:
        states = client.map(scan, sorted(glob(sys.argv[1] + "/*.parquet")))
        while len(states) > 1:
            pairs = zip(states[::2], states[1::2])
            states = [client.submit(add, *pair) for pair in pairs] + states[len(states) // 2 * 2:]
        es.State.from_bytes(states[0].result()).solve(n_components=3).save(sys.argv[2])
