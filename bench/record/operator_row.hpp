// Measured operators as rows: their shapes by column, and their JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/dtype.hpp"

namespace plumbline {

/// Operators of `plumbline bench operator`.
enum class BenchedOperator { gemm, attention, experts, memory_bound };
enum class BenchedPass { forward, backward, input_gradient, weight_gradient };
std::string_view name_of(BenchedOperator kind);
std::string_view name_of(BenchedPass pass);

/// Operators that move memory, by name: those of BenchedShape::name.
std::span<const std::string_view> memory_bound_operators();

/// Sizes of one call; each kind has its columns. 0 where a column does not belong to the kind.
struct BenchedShape {
  BenchedOperator kind = BenchedOperator::gemm;
  BenchedPass pass = BenchedPass::forward;
  DType type = DType::fp32;
  std::string name;        // memory_bound: the operator's, "rmsnorm_forward"
  std::string label;       // purpose in a configuration, "fc1"; empty for other shapes
  std::int64_t count = 1;  // calls per micro-batch of a configuration
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 0, sequence = 0, heads = 0, kv_heads = 0, head = 0, window = 0;
  /// experts: one rank's of `experts`, on tokens of its group of ep ranks; memory_bound: tokens x width.
  std::int64_t tokens = 0, hidden = 0, ffn = 0, choices = 0, experts = 0, tp = 0, ep = 0, width = 0;

  /// Query heads per key and value head.
  std::int64_t group() const { return heads / kv_heads; }
  /// Rows that an expert of this rank works on, if all experts have the same number; at least 1.
  std::int64_t rows_per_expert() const;
  std::int64_t local_experts() const { return experts / ep; }
};

/// A size of a kind; `otherwise`: its value where it is not given; none: it must be given.
struct ShapeColumn {
  std::string_view name;
  std::int64_t BenchedShape::*size;
  std::optional<std::int64_t> otherwise;
};
std::span<const ShapeColumn> shape_columns(BenchedOperator kind);
/// "m 512, n 512, k 512".
std::string shape_text(const BenchedShape& shape);

/// Median over samples.
struct BenchedTime {
  double seconds = 0;
  double low_s = 0;  // 95 % interval of the median
  double high_s = 0;
  std::int64_t calls = 0;
  double clock = 0;   // of the processor during the samples, relative to its highest seen; 0: unknown
  int throttled = 0;  // samples left out since the clock was low
  bool slow = false;  // no sample was left: all had a low clock
  std::optional<double> predicted_s{};

  /// Measured against predicted time: 0.1 is ten per cent longer. Needs a prediction.
  double difference() const { return seconds / predicted_s.value() - 1; }
};

/// One shape: single calls whose operands come from memory, and calls one after another.
struct OperatorRow {
  BenchedShape shape;
  double flops = 0;  // of matrix products; 0 elsewhere
  double bytes = 0;  // operands read or written once
  BenchedTime isolated;
  BenchedTime batched;
  std::string basis;  // of the prediction: measured, interpolated, estimated; empty without one
};

nlohmann::ordered_json to_json(const OperatorRow& row);

}  // namespace plumbline
