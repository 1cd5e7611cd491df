#!/bin/sh
# DATA, N: the randomized form, where d² numbers are too many. 75 says that a pass is wanted, and stdout which.
set -u
fit() { eigenstream fit "$1" --exclude id --form randomized -k 3 --passes passes -o model.safetensors; }
while next=$(fit "$1"); [ $? = 75 ]; do
  seq "$2" | parallel --retries 3 eigenstream product "$1" --operand "$next" --shard {}/"$2" || exit 1
done
[ -f model.safetensors ]
