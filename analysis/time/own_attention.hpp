// Attention by plumbline's own kernels (kernels/cuda/attention): of parts of sequences, for which cuDNN has
// no plan. Cached decoding is priced so; blocks of a ring in training still at cuDNN's rate.
#pragma once

#include <optional>

#include "analysis/hardware/device.hpp"
#include "analysis/work/operator_call.hpp"

namespace plumbline {

/// The call with the share of the peak that the own kernels reach (AttentionCall::most_share); nothing when
/// another library computes it.
std::optional<AttentionCall> by_own_kernels(const AttentionCall& call, DType type);

/// Seconds of queries behind `past` keys. Such a call has `most_share`.
double own_part_seconds(const AttentionCall& call, DType type, const Device& device);

}  // namespace plumbline
