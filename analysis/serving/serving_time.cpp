#include "analysis/serving/serving_time.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "analysis/time/accelerator_time.hpp"

namespace plumbline {
namespace {

/// Rows up to which products have ServingRates; those of prefills are longer.
constexpr std::int64_t kMostRows = 1024;

/// Rows that an expert's last block of a grouped product is short of, on average: half of 64 (vLLM 0.9,
/// model_executor/layers/fused_moe/fused_moe.py: blocks of 16 to 128 rows).
constexpr double kEmptyRows = 32;

/// Reading and arithmetic of a kernel that overlaps most of the two.
double in_quadrature(double read, double sums) {
  return std::hypot(read, sums);
}

/// One of the two grouped products of a layer's experts, with its half of what is between them.
double grouped_seconds(const GemmCall& call, DType type, const Device& device) {
  const ServingRates& rates = device.serving;
  const auto rows = static_cast<double>(call.tokens), out = static_cast<double>(call.out),
             in = static_cast<double>(call.in), e = static_cast<double>(size_of(type));
  const double filled = rows + call.reached * kEmptyRows;
  const double peak = type == DType::fp32 ? device.peak_fp32 : device.peak_16bit;
  const double weights = call.reached * out * in * e / (device.bandwidth * rates.experts_share);
  const double sums = 2 * filled * out * in / (peak * rates.experts_peak);
  const double moved = e * rows * (in + 2 * out) / (device.bandwidth * device.stream_share);
  return rates.experts_s / 2 + in_quadrature(weights, sums) + moved;
}

std::optional<double> product_seconds(const OperatorCall& call, const Device& device) {
  const auto& gemm = *call.as<GemmCall>();
  const ServingRates& rates = device.serving;
  if (gemm.reached > 0 && rates.experts_share > 0 && rates.experts_peak > 0)
    return grouped_seconds(gemm, call.type, device);
  if (gemm.reached > 0 || rates.product_share <= 0 || rates.product_peak <= 0) return std::nullopt;
  const auto rows = static_cast<double>(gemm.tokens), out = static_cast<double>(gemm.out),
             in = static_cast<double>(gemm.in), e = static_cast<double>(size_of(call.type));
  if (gemm.tokens > kMostRows) return std::nullopt;
  const double read = e * (out * in + rows * (out + in)) / (device.bandwidth * rates.product_share);
  const double peak = call.type == DType::fp32 ? device.peak_fp32 : device.peak_16bit;
  return rates.product_s + in_quadrature(read, 2 * rows * out * in / (peak * rates.product_peak));
}

std::optional<double> attention_seconds(const OperatorCall& call, const Device& device) {
  const auto& attention = *call.as<AttentionCall>();
  const ServingRates& rates = device.serving;
  if (!attention.cached || rates.attention_share <= 0) return std::nullopt;
  OperatorCall computed = call;
  computed.count = 1;
  computed.get<AttentionCall>().cached = false;
  const double read = read_elements(attention) * static_cast<double>(size_of(call.type));
  return std::max(rates.attention_s + read / (device.bandwidth * rates.attention_share),
                  accelerator_time(computed, device).value);
}

/// Custom all-reduces of vLLM and SGLang: each rank reads the buffers of all others, or larger ones in
/// two stages (csrc/custom_all_reduce.cuh of vLLM: from 512 KB with 4 ranks, from 256 KB with 8). Up to
/// 8 MB within NVLink.
std::optional<double> reduce_seconds(const OperatorCall& call, const Machine& machine, const Layout& layout) {
  const ServingRates& rates = machine.device.serving;
  const CollectiveCall& of = *call.collective();
  const auto bytes = static_cast<double>(call.bytes().value);
  constexpr double kMostBytes = 8 << 20, kNvlink = 100e9;
  if (of.kind != CallKind::all_reduce || of.ranks < 2 || of.ranks > 8 || bytes > kMostBytes)
    return std::nullopt;
  if (rates.reduce_s <= 0 || machine.network.node_bandwidth < kNvlink) return std::nullopt;
  if (leaves_node(of.group, of.ranks, layout, machine.network.gpus_per_node)) return std::nullopt;
  const double most_direct = of.ranks == 2 ? kMostBytes : of.ranks <= 4 ? 512 << 10 : 256 << 10;
  const double n = of.ranks;
  if (bytes < most_direct) return rates.reduce_s + (n - 1) * bytes / rates.reduce_bandwidth;
  return 2 * rates.reduce_s + 2 * (n - 1) / n * bytes / rates.reduce_bandwidth;
}

}  // namespace

Seconds serving_time(const OperatorCall& call, const HardwareProfile& hardware, const Load& load) {
  const Seconds general = time_of(call, hardware, load);
  if (hardware.accelerator() == nullptr) return general;
  const Machine& machine = hardware.accelerator()->constants;
  const double times = call.share * static_cast<double>(call.count);
  std::optional<double> once;
  if (call.as<GemmCall>() != nullptr) once = product_seconds(call, machine.device);
  if (call.as<AttentionCall>() != nullptr) once = attention_seconds(call, machine.device);
  if (!once && call.collective() != nullptr) {
    const auto own = reduce_seconds(call, machine, load.layout);
    if (own) return std::min(general, Seconds{*own * times});
  }
  return once ? Seconds{*once * times} : general;
}

}  // namespace plumbline
