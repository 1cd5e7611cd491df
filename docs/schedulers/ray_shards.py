"""Ray: one state of each file, added up in file order wherever they are."""
import sys
from glob import glob

import ray

import eigenstream as es


@ray.remote(max_retries=3)
def scan(path):
    return es.scan(path, exclude="id", threads=1).to_bytes()


@ray.remote
def add(one, other):
    return es.State.from_bytes(one).merge(es.State.from_bytes(other)).to_bytes()


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1")
    states = [scan.remote(path) for path in sorted(glob(sys.argv[1] + "/*.parquet"))]
    while len(states) > 1:
        states = [add.remote(*pair) for pair in zip(states[::2], states[1::2])] + states[len(states) // 2 * 2:]
    es.State.from_bytes(ray.get(states[0])).solve(n_components=3).save(sys.argv[2])
