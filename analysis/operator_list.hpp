// The operators of one training step, call by call, as bench/training/README.md describes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/hardware.hpp"
#include "analysis/shapes.hpp"

namespace plumbline {

enum class CallKind { gemm, attention, memory_bound, all_reduce, allocation };

/// One operator call (or `count` equal ones).
struct OperatorCall {
  CallKind kind = CallKind::memory_bound;
  std::string label;         // what it is for, for people: "qkv forward"
  std::string name;          // memory_bound: the operator's name in kernels/operators.hpp
  DType type = DType::bf16;  // storage type (all_reduce: of the buffer)
  GemmPass pass = GemmPass::forward;
  bool backward = false;         // attention
  std::int64_t tokens = 0;       // gemm: token rows; attention: sequence length
  std::int64_t out = 0;          // gemm: output width; attention: head size
  std::int64_t in = 0;           // gemm: input width; attention: query heads per key/value head
  std::int64_t elements = 0;     // memory_bound, all_reduce: of the largest matrix; attention: heads · batch
  double bytes_per_element = 0;  // memory_bound: read and written, for the roofline
  std::int64_t count = 1;
};

/// Forward and backward of one micro-batch on one rank.
std::vector<OperatorCall> forward_calls(const StageShape& shape);
std::vector<OperatorCall> backward_calls(const StageShape& shape);
/// Clearing of gradients before a step.
std::vector<OperatorCall> clear_calls(const StageShape& shape);
/// Global gradient norm and optimizer update of one rank, once per step.
std::vector<OperatorCall> update_calls(const StageShape& shape, Optimizer optimizer, bool clip);

/// FLOPs of one call times its count; 0 for anything but GEMM and attention.
Flops flops_of(const OperatorCall& call);

}  // namespace plumbline
