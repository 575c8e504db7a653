#!/bin/sh
# All GPU measurements, in about six minutes: the suite, the pass and the solver. Tables to the terminal, JSON to $1.
set -u
out="${1:-report/gpu}"
export PYTHONPATH="$(dirname "$0")/../src" PYTHONUNBUFFERED=1
mkdir -p "$out"
python3 "$(dirname "$0")/gpu_suite.py" > "$out/gpu_suite.txt" 2>&1
echo "suite: exit status $?"; grep -v ^PASS "$out/gpu_suite.txt" | tail -n 30
python3 "$(dirname "$0")/gpu_max_margin.py" --out "$out" 2>&1 | tee "$out/gpu_max_margin.txt"
python3 "$(dirname "$0")/gpu_pass.py" --out "$out" 2>&1 | tee "$out/gpu_pass.txt"
