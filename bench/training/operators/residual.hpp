// The residual stream's sums, and dropout.
#pragma once

#include <cstdint>

#include "bench/training/tape/tape.hpp"

namespace plumbline::training {

/// Allocates a tensor of the residual stream that later entries overwrite.
Slot reserve(Tape& tape, Slot stream);

struct ResidualAddition {
  std::int64_t site = 0;  // of its dropout
  Matrix bias{};          // of the product that made the result
  double factor = 1;      // of the addend
};
/// y = factor·addend + dropped(result + bias), in the result's memory. `by_norm`: the norm that follows
/// computes it (norm_of_sum).
Slot add_residual(Tape& tape, const ResidualAddition& of, Slot addend, Slot result, bool by_norm = false);

/// y = dropped(x), in x's memory; x itself without dropout in the configuration. `backward`: takes its
/// backward, for a later entry.
Slot drop(Tape& tape, std::int64_t site, Slot x, Plan* backward = nullptr);

}  // namespace plumbline::training
