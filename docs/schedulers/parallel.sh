#!/bin/sh
# DATA, N: a model of all files, by N shards at a time of GNU parallel; a shard that fails is tried twice more.
set -eu
seq "$2" | parallel --retries 3 eigenstream scan "$1" --exclude id --shard {}/"$2" -o shards
eigenstream merge shards -o all.state
eigenstream solve all.state -k 3 -o model.safetensors
seq "$2" | parallel --retries 3 eigenstream transform model.safetensors "$1" --keep id --shard {}/"$2" -o scores
