// Tokens of a step at the experts of every layer, and the dropped ones among them.
#pragma once

#include <cstdint>
#include <vector>

namespace plumbline {

/// One MoE layer, all copies of the model and micro-batches together.
struct ExpertLoadReport {
  std::int64_t layer = 0;
  std::vector<std::int64_t> tokens;   // by expert: that chose it
  std::vector<std::int64_t> dropped;  // by expert: of those
};

std::int64_t tokens_of(const std::vector<ExpertLoadReport>& layers);
std::int64_t dropped_of(const std::vector<ExpertLoadReport>& layers);

}  // namespace plumbline
