#!/bin/sh
# All GPU measurements, in about five minutes: the suite, the passes, the solver and batches. Logs and JSON go to $1.
set -u
here="$(dirname "$0")"
out="${1:-report/gpu}"
export PYTHONPATH="$here/../src:$here/../paper" PYTHONUNBUFFERED=1
mkdir -p "$out"
python3 "$here/gpu_suite.py" > "$out/gpu_suite.txt" 2>&1
echo "suite: exit status $?"; grep -v ^PASS "$out/gpu_suite.txt" | tail -n 30
python3 "$here/gpu_pass.py" --out "$out" 2>&1 | tee "$out/gpu_pass.txt"
python3 "$here/gpu_max_margin.py" --out "$out" 2>&1 | tee "$out/gpu_max_margin.txt"
python3 "$here/batch.py" --device cuda --out "$out" 2>&1 | tee "$out/batch.txt"
