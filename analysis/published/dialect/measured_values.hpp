// Measured values printed about a run, as seconds and bytes.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/published/dialect/table_header.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Rank whose memory a table prints.
enum class MemoryOf { maximum, first, last };

struct MeasuredValues {
  double step_s = 0;      // printed, or derived from the printed rate; 0: neither is there
  double peak_bytes = 0;  // 0: not printed
  MemoryOf memory_of = MemoryOf::maximum;
};

/// A row that contradicts itself: its values are not used.
class Contradiction : public std::exception {
 public:
  explicit Contradiction(std::string reason) : reason_(std::move(reason)) {}
  const char* what() const noexcept override { return reason_.c_str(); }

 private:
  std::string reason_;
};

/// Definitions of a step's FLOPs that tables may name (header key flops), with b sequences of s tokens in a
/// step, l layers, hidden size h, vocabulary V, N weights of matrix products, a heads of size d:
///   megatron-2021            72·b·s·l·h²·(1 + s/(6h) + V/(12lh)), arXiv:2104.04473 eq. 3 without
///                            recomputation
///   megatron-2021-recompute  96·b·s·l·h²·(1 + s/(6h) + V/(16lh)), the same as printed, with
///                            recomputation
///   causal-attention         b·s·(6N + 6·l·a·d·s), printed by `predict` (analysis/work/flops.hpp)
///   full-attention           b·s·(6N + 12·l·a·d·s)
///   palm                     b·s·(6·all parameters + 12·l·a·d·s), arXiv:2204.02311 appendix B
const std::vector<std::string_view>& flops_definitions();
/// Throws InputError for another name.
double step_flops(std::string_view definition, const RunConfig& config, const std::string& origin);

/// Reads the measured columns of a run. Throws InputError for unreadable values (a rate in TFLOP/s without a
/// definition of FLOPs, MFU without its peak) and Contradiction when two printed values are more than 5 %
/// apart.
MeasuredValues measured_values(const Cells& cells, const RunConfig& config, const std::string& origin);

}  // namespace plumbline
