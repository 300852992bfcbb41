// One accelerator: times of a matrix product, an attention call or a memory-bound operator on it, from a few
// physical constants.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>

#include "analysis/hardware/kernel_rates.hpp"
#include "analysis/silicon/measured_operators.hpp"

namespace plumbline {

/// Memory of the device, and what it holds besides tensors.
struct MemoryBytes {
  double bytes = 0;
  double reserved_bytes = 0;  // context and libraries: not for tensors
  // The same in parts, for a process of backend cuda (analysis/memory/device_memory.hpp).
  double context_bytes = 0;
  double library_bytes = 0;
  double kernel_bytes = 0;
  double nccl_group_bytes = 0;
  double nccl_channel_bytes = 0;
};

/// Flash attention, as shares of the peak.
struct AttentionRates {
  double forward = 0;  // share of the peak, head size 128, long sequences, FLOPs of the causal half
  double backward = 0;
  double head_64 = 0;    // time per FLOP of the forward with heads of 64, over 128; 0: by head_slowdown
  double eight_bit = 1;  // time of the forward with FP8 operands, over 16 bits
  double cudnn_forward_speedup = 1;  // of cuDNN's attention over those
  double cudnn_backward_speedup = 1;
};

/// Tiles of a product.
struct TileRates {
  double wave_share =
      0.5;  // of an empty place in the last wave that is lost: idle processors leave power to the rest
  double tile_s = 0;           // filling a tile's operand pipeline
  double cache_bandwidth = 0;  // of the second-level cache, bytes/s: where epilogues write
};

/// Its host, compared with that of software's constants (2023's Xeon).
struct HostRates {
  double slowdown = 1;         // of launches
  double python_slowdown = 0;  // of Python; 0: as of launches
};

/// Kernels of state-space and linear-attention mixers: shares of the memory's bandwidth that they reach,
/// counting what each reads and writes once. Defaults: the H100's, where nothing is measured.
struct ScanRates {
  double convolution = 0.68;  // the short convolution over tokens (causal_conv1d)
  double recurrence = 0.49;   // Triton's kernels of a recurrence in chunks; measured on gated delta rules
  friend bool operator==(const ScanRates&, const ScanRates&) = default;
};

/// Kernels of inference engines: a time without operands, and shares of the bandwidth or the peak. 0: not
/// known.
struct ServingRates {
  double product_s = 0;      // product of few rows, which reads a weight matrix
  double product_share = 0;  // of the bandwidth
  double product_peak = 0;   // share of the 16-bit peak with up to 1024 rows, at the clocks of decoding
  double attention_s = 0;    // one query per sequence over a KV cache, all sequences in a kernel
  double attention_share = 0;
  double experts_s = 0;         // experts of a layer: sorting, two grouped products, activation, sum
  double experts_share = 0;     // of the bandwidth, while their weights are read
  double experts_peak = 0;      // share of the 16-bit peak
  double reduce_s = 0;          // stage of an all-reduce over NVLink in a kernel of its own
  double reduce_bandwidth = 0;  // that a rank reads others' buffers with, bytes/s
  friend bool operator==(const ServingRates&, const ServingRates&) = default;
};

/// SI units throughout; every constant's source is in analysis/hardware/*.json.
struct Device {
  MemoryBytes memory;
  AttentionRates attention;
  double peak_16bit = 0;  // dense FLOP/s, fp16 and bf16
  double peak_8bit = 0;   // dense FLOP/s, fp8; 0: none
  double peak_mx8 = 0;    // dense FLOP/s, fp8 with a scale per block of 32 in the units (MXFP8); 0: none
  double peak_4bit = 0;   // dense FLOP/s, NVFP4 or MXFP4; 0: none
  double peak_fp32 = 0;
  double power_watts = 0;            // the board's limit, which the shares below are for
  double bandwidth = 0;              // of device memory, bytes/s
  double host_bandwidth = 0;         // of copies to or from the memory of the host, one direction, bytes/s
  double processors = 0;             // streaming multiprocessors
  double collective_processors = 0;  // of them, held by a collective that runs alongside computation
  double gemm_share = 0;  // of the peak: main loop of the largest tile, all processors busy, sustained clock
  double gemm_share_8bit = 0;
  double gemm_share_4bit = 0;
  double mx8_slowdown = 1;  // time of a product in MXFP8 over one in FP8 with a scale per tensor
  TileRates tiles;
  double stream_share = 0;  // of the bandwidth that a long memory-bound kernel reaches
  double random_s = 0;      // per element of a dropout kernel that draws its own numbers (Philox 4x32-10)
  HostRates host;
  double kernel_s = 0;  // ramp-up, drain and gap of one kernel on the device
  ScanRates scans;
  ServingRates serving;
  /// Measured shares of single shapes (analysis/hardware/kernel_rates.csv); none if nothing is tabled.
  std::shared_ptr<const KernelRates> rates;
  /// Measured times of operators; none where they come from the constants.
  std::shared_ptr<const silicon::MeasuredOperators> measured;
};

/// Reads or writes of `bytes` in one kernel.
inline double stream_seconds(const Device& d, double bytes) {
  return d.kernel_s + bytes / (d.bandwidth * d.stream_share);
}

/// Mean number of tiles of `tile` rows that `m` rows take, with a standard deviation of `spread` rows.
inline double tiles_of(double m, double tile, double spread) {
  if (spread <= 0) return std::ceil(m / tile);
  const double below = std::max(std::floor(m / tile) - 2, 0.0);
  double tiles = below;  // as many are always full; every further one is begun with some probability
  for (int next = 0; next < 5; ++next)
    tiles += 0.5 * std::erfc(((below + next) * tile - m) / (spread * std::sqrt(2.0)));
  return tiles;
}

/// `batch` products m×n×k: the best of four tile shapes. A wave of tiles takes a main loop over k and an
/// epilogue that writes the tile. A partly filled last wave takes as long as a full one (NVIDIA, "Matrix
/// Multiplication Background User's Guide"). Never faster than the memory. `flops_per_s`: of the large tile's
/// main loop on all processors. `operand_bytes`: per element of both operands. `output_bytes`: per element,
/// twice its size if the result is accumulated.
inline double product_seconds(const Device& d, double flops_per_s, double operand_bytes, double m, double n,
                              double k, double batch, double output_bytes, double spread = 0) {
  struct Tile {
    double m, n, share;
  };
  // Smaller tiles load more operand bytes per FLOP from shared memory: shares of the large tile's rate.
  constexpr Tile kTiles[] = {{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.93}, {64, 64, 0.65}};
  const double per_processor = flops_per_s / d.processors;
  const double cache_per_processor = d.tiles.cache_bandwidth / d.processors;
  double best = 1e30;
  for (const Tile& tile : kTiles) {
    const double tiles = tiles_of(m, tile.m, spread) * std::ceil(n / tile.n) * batch;
    const double full = tiles / d.processors;
    const double waves = full <= 1 ? 1 : full + d.tiles.wave_share * (std::ceil(full) - full);
    const double loop = 2 * tile.m * tile.n * k / (per_processor * tile.share);
    const double epilogue = d.tiles.tile_s + tile.m * tile.n * output_bytes / cache_per_processor;
    best = std::min(best, waves * (loop + epilogue));
  }
  const double memory =
      batch * (operand_bytes * (m * k + k * n) + output_bytes * m * n) / (d.bandwidth * d.stream_share);
  return d.kernel_s + std::max(best, memory);
}

/// The same with 16-bit (or FP8) operands. `output_bytes`: 2, or 4 and more when the result is accumulated
/// in fp32.
inline double gemm_seconds(const Device& d, double m, double n, double k, double batch = 1,
                           double output_bytes = 2, bool fp8 = false) {
  const double flops_per_s = fp8 ? d.peak_8bit * d.gemm_share_8bit : d.peak_16bit * d.gemm_share;
  return product_seconds(d, flops_per_s, fp8 ? 1.0 : 2.0, m, n, k, batch, output_bytes);
}

/// Time per FLOP of flash attention with heads of `head`, over that with heads of 128. Below 128, where it
/// was measured, the softmax between the products takes the difference, for every pair of query and key.
/// Derivation: the backward has as much of it for five products as the forward for two.
inline double head_slowdown(const Device& d, double head, bool backward) {
  if (d.attention.head_64 <= 0 || head >= 128) return (1 + 16 / head) / (1 + 16 / 128.0);
  return 1 + (d.attention.head_64 - 1) * (128 / head - 1) * (backward ? 2.0 / 5 : 1);
}

/// Flash attention over `batch` sequences × heads, causal; `window`: keys that a query sees, itself
/// included, 0 for all before it. Blocks on the diagonal are computed whole, and so are those on a window's
/// other edge, which is shorter by the window's width.
inline double flash_seconds(const Device& d, double batch, double sequence, double head, bool backward,
                            bool dropout, double window, double prefix = 0) {
  const double causal = 0.5 * (1 + 256 / sequence);  // of all pairs
  const double hidden = window > 0 ? std::max(1 - window / sequence, 0.0) : 0;
  const double above = 0.5 * prefix * prefix / (sequence * sequence);  // of the diagonal, that a prefix sees
  const double computed = causal - std::max(0.5 * hidden * hidden - 128 / sequence * hidden, 0.0) + above;
  const double flops = (backward ? 10.0 : 4.0) * batch * sequence * sequence * head * computed;
  const double share =
      (backward ? d.attention.backward : d.attention.forward) / head_slowdown(d, head, backward);
  // Dropout draws a number per score inside the kernel, 16 per Philox call instead of 4.
  const double random = dropout ? batch * sequence * sequence * computed * d.random_s / 4 : 0;
  return d.kernel_s + flops / (d.peak_16bit * share) + random;
}

}  // namespace plumbline
