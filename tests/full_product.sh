#!/usr/bin/env bash
# Every combination of schedule, sequence parallelism, recomputation, ZeRO stage and split of up to 8 ranks.
# Checks gradients, memory to the byte on both backends, and traffic. Prints a table per number of ranks; ends
# with 1 if a cell fails.
#   ./tests/full_product.sh [--cover]     (a covering selection instead of everything)
#   ./tests/full_product.sh --context     (one of settings that context parallelism supports, on two, four or
#                                         eight ranks)
#   ./tests/full_product.sh --experts     (one of MoE models, with all experts on every rank and spread over
#                                         two, four or eight)
#   ./tests/full_product.sh --experts --part 2/4     (every fourth cell from the second on)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source bench/setup.sh

plumbline_setup "${plumbline_packages[@]}" "${plumbline_check_packages[@]}"
plumbline_build release full_product
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
failed=0
for ranks in 1 2 4 8; do
  mpirun -n "$ranks" --oversubscribe --bind-to none build/release/tests/bench/training/full_product "$@" \
    || failed=1
done
exit "$failed"
