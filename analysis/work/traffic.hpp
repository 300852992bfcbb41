// Bytes that every rank sends in one training step, from the configuration and the schedule alone.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/step/step_model.hpp"
#include "core/config/run_config.hpp"
#include "core/run/traffic.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

/// Counters of each world rank's communicator (core/run/traffic.hpp) in one training step. They are messages
/// between stages on different ranks, and the collectives of every group as whole buffers. A group of one is
/// not counted, nor is the trainer's control traffic (losses, barriers, clocks). A schedule without explicit
/// transfers sends after every F, and after every B and I.
std::vector<Traffic> predict_traffic(const RunConfig& config, const RepeatedSchedule& step);
std::vector<Traffic> predict_traffic(const StepModel& model, const RepeatedSchedule& step);
/// The same by pipeline rank: one entry if all its ranks are alike, else one per data rank. Tensor ranks
/// always are alike.
std::vector<std::vector<Traffic>> predict_pipeline_traffic(const RunConfig& config,
                                                           const RepeatedSchedule& step);

/// Elements that one rank sends in a ring, with n members: an all-reduce 2(n-1)/n of the buffer, an
/// all-gather (n-1)/n of the gathered output, a reduce-scatter (n-1)/n of the input, a broadcast all of it
/// (nccl-tests, doc/PERFORMANCE.md). `traffic` in bytes, so the result is in bytes.
double ring_bytes(const GroupTraffic& traffic, int members);

/// Data-parallel elements that a rank sends in a ring per step, for Ψ = `parameters` on each rank of the data
/// group, `data` of them and `microbatches` per step (ZeRO, arXiv:1910.02054 §7):
///   Z = 0  2Ψ            all-reduce of the gradients
///   Z = 1  Ψ + Ψ         reduce-scatter of the gradients, all-gather of the parameters
///   Z = 2  M·Ψ + Ψ       the reduce-scatter for every micro-batch
///   Z = 3  3·M·Ψ         per micro-batch all-gather forward and backward, and reduce-scatter
/// each times (D-1)/D. `gathers` is Z = 3's all-gathers per micro-batch: 2, or 3 with full recomputation of
/// groups so large that every layer is gathered once more. Vectors and padding are left out.
double data_parallel_ring_elements(int zero_stage, double parameters, int data, int microbatches,
                                   double gathers = 2);

/// Tensor-parallel elements that a rank sends in a ring for one layer and micro-batch, forward and backward
/// together, of tensors of `stream` = s·b·h elements over `tensor` ranks (Megatron-LM, arXiv:1909.08053
/// §3; Korthikanti et al., arXiv:2205.05198 §4.2.2). Without sequence parallelism four all-reduces,
/// 8(t-1)/t. With it six all-gathers and four reduce-scatters, 10(t-1)/t: the backward gathers its inputs
/// again for the weight gradients, which Korthikanti overlaps.
double tensor_parallel_ring_elements(bool sequence_parallel, double stream, int tensor);

}  // namespace plumbline
