#!/usr/bin/env bash
# Gate the suites and leave everything a CI shows in one folder. All other files of this folder call it; so may you.
#
#   docs/ci/gate.sh [SUITES...]        default: suites
#
#   SPECGATE_OUT       folder of the reports (default: specgate-out)
#   SPECGATE_HISTORY   folder of the history; none is kept where it is empty (default)
#   SPECGATE_TIER      smoke, full or nightly (default: smoke)
#   SPECGATE_BUDGET    most time for measuring, such as 20min (default: no bound)
#   SPECGATE_STRICT    1: an undecided gate fails too; for nightly runs on a quiet runner
#   PYTHON             the interpreter (default: python)
#
# Exit status: pytest's own. 0 passed, 1 failed or could not be measured, 2 interrupted, 4 a mistake, 5 no test.
set -euo pipefail

out=${SPECGATE_OUT:-specgate-out}
python=${PYTHON:-python}
mkdir -p "$out"

arguments=(--specgate "--specgate-tier=${SPECGATE_TIER:-smoke}")
if [ -n "${SPECGATE_HISTORY:-}" ]; then arguments+=("--specgate-history=$SPECGATE_HISTORY"); fi
if [ -n "${SPECGATE_BUDGET:-}" ]; then arguments+=("--specgate-budget=$SPECGATE_BUDGET"); fi
if [ "${SPECGATE_STRICT:-0}" = 1 ]; then arguments+=(--specgate-strict); fi
if [ "$#" -eq 0 ]; then set -- suites; fi

# What this will cost, before it costs anything. A suite that cannot be read (1) does not keep the others from running.
planned=0
"$python" -m pytest "${arguments[@]}" --specgate-plan --specgate-annotations=none -q "$@" || planned=$?
if [ "$planned" -gt 1 ]; then exit "$planned"; fi

exec "$python" -m pytest "${arguments[@]}" \
  "--specgate-report=$out/report.html" "--specgate-report=$out/report.json" "--specgate-report=$out/report.md" \
  "--junitxml=$out/junit.xml" "$@"
