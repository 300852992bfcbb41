#include "analysis/operators/constants_times.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/hardware/product_rates.hpp"
#include "core/base/error.hpp"

namespace plumbline::silicon {
double product_by_constants(const Device& device, const ProductShape& shape) {
  const TypeRate rate = rate_of(device, shape.type);
  const double product =
      product_seconds(device, rate.flops_per_s, rate.operand_bytes, shape.m, shape.n, shape.k, 1, 2);
  const double bytes = quantized_bytes(shape.type) * shape.m * shape.k;
  return bytes > 0 ? product + stream_seconds(device, bytes) : product;
}

double attention_by_constants(const Device& device, const AttentionShape& shape) {
  return flash_seconds(device, shape.batch * shape.heads, shape.sequence, shape.head, false, false,
                       shape.window) /
         device.attention.cudnn_forward_speedup;
}

double experts_by_constants(const Device& device, const ExpertsShape& shape) {
  const TypeRate rate = rate_of(device, shape.type);
  const double here = std::max(1.0, shape.experts / shape.ep);
  const double rows = shape.tokens * shape.choices / shape.ep;
  const double each = std::max(1.0, rows / here);
  const double width = shape.ffn / shape.tp;
  const auto product = [&](double n, double k) {
    return product_seconds(device, rate.flops_per_s, rate.operand_bytes, each, n, k, here, 2);
  };
  // Rows are gathered, activated and added up in 16 bit.
  const double bytes = 2 * rows * (2 * shape.hidden + 3 * width + 2 * shape.hidden);
  return product(2 * width, shape.hidden) + product(shape.hidden, width) + stream_seconds(device, bytes);
}

double collective_by_constants(const Network& network, const CollectiveShape& shape) {
  const Span span{static_cast<int>(shape.ranks), 1};
  if (shape.operation == "all_reduce") return all_reduce_seconds(network, span, shape.bytes);
  if (shape.operation == "all_gather" || shape.operation == "reduce_scatter") {
    return scatter_seconds(network, span, shape.bytes);
  }
  if (shape.operation == "alltoall") return all_to_all_seconds(network, span, shape.bytes);
  throw InputError(fmt::format(
      "operation: found {}, expected all_reduce, all_gather, reduce_scatter or alltoall", shape.operation));
}

double cast_by_constants(const Device& device, const CastShape& shape) {
  if (shape.part != "amax" && shape.part != "cast") {
    throw InputError(fmt::format("part: found {}, expected amax or cast", shape.part));
  }
  return stream_seconds(device, (shape.part == "amax" ? 2 : 3) * shape.m * shape.k);
}

double exchange_by_constants(const Network& network, const ExchangeShape& shape) {
  if (shape.part != "dispatch" && shape.part != "combine") {
    throw InputError(fmt::format("part: found {}, expected dispatch or combine", shape.part));
  }
  const double element = shape.part == "dispatch" ? 1 + 4.0 / 128 : 2;
  Network placed = network;
  placed.gpus_per_node = static_cast<int>(std::max(1.0, shape.ranks / shape.nodes));
  return dispatch_seconds(placed, {static_cast<int>(shape.ranks), 1},
                          {.bytes = shape.tokens * shape.hidden * element, .choices = shape.choices});
}

double experts_roofline(const Device& device, const ExpertsShape& shape) {
  const TypeRate rate = rate_of(device, shape.type);
  const double rows = shape.tokens * shape.choices / shape.ep, width = shape.ffn / shape.tp;
  const double weights = rate.operand_bytes * 3 * shape.hidden * width * shape.experts / shape.ep;
  const double bytes = weights + 2 * rows * (4 * shape.hidden + 3 * width);
  return std::max(6 * rows * shape.hidden * width / rate.flops_per_s,
                  bytes / (device.bandwidth * device.stream_share));
}

}  // namespace plumbline::silicon
