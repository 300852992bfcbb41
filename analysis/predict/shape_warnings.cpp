#include "analysis/predict/shape_warnings.hpp"

#include <fmt/format.h>

#include <cmath>

namespace plumbline {
namespace {

/// Elements of 16 bit that tensor cores load at once: rows of other lengths are not aligned (NVIDIA, "Matrix
/// Multiplication Background User's Guide").
constexpr std::int64_t kAligned = 8;
constexpr double kSlowLink = 60e9;  // bytes/s; PCIe 5.0 x16 has 64, NVLink 3 on an A100 230

}  // namespace

std::vector<std::string> shape_warnings(const RunConfig& config, const HardwareProfile& hardware) {
  std::vector<std::string> warnings;
  if (hardware.accelerator() == nullptr) return warnings;
  const Machine& machine = hardware.accelerator()->constants;
  const ModelConfig& model = config.model;
  const int tensor = config.parallel.tensor;
  if (model.head_dim % kAligned != 0) {
    warnings.push_back(fmt::format(
        "attention heads of {} are no multiple of {}, and their products not aligned, which is not "
        "predicted: "
        "with heads of 108 a step took 38 % longer than with 216 (bigscience, tr11-176B-ml chronicles)",
        model.head_dim, kAligned));
  } else if (model.head_dim <= 64) {
    warnings.push_back(fmt::format(
        "attention heads of {}: kernels reach a smaller share of the peak than with heads of 128, which is "
        "predicted",
        model.head_dim));
  }
  const std::int64_t rows = config.padded_vocab();
  if (rows % (kAligned * tensor) != 0) {
    warnings.push_back(
        fmt::format("a vocabulary of {} over {} tensor ranks is no multiple of {} each, and the output "
                    "layer's products not "
                    "aligned, which is not predicted; set make_vocab_size_divisible_by",
                    rows, tensor, kAligned));
  }
  // Tiles of 128 x 128 of the narrowest product of a layer.
  const double tokens =
      static_cast<double>(config.batch.micro_batch_size * config.batch.seq_length) / config.parallel.context;
  const double tiles = std::ceil(tokens / 128) * std::ceil(static_cast<double>(model.hidden) / 128);
  if (tiles < machine.device.processors) {
    warnings.push_back(
        fmt::format("a micro-batch of {:.0f} tokens gives products of width {} work for {:.0f} of {:.0f} "
                    "processors, which "
                    "is predicted; a larger micro_batch_size fills them",
                    tokens, model.hidden, tiles, machine.device.processors));
  }
  if (tensor > 1 && machine.network.node_bandwidth < kSlowLink) {
    warnings.push_back(
        fmt::format("tensor parallelism over a link of {:.0f} GB/s, which is predicted; pipeline or data "
                    "parallelism sends less",
                    machine.network.node_bandwidth / 1e9));
  }
  return warnings;
}

}  // namespace plumbline
