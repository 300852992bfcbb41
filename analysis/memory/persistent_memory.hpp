// Memory that a rank holds for the whole run, from bench/training/README.md.
#pragma once

#include <cstdint>
#include <span>

#include "analysis/step/stage_shape.hpp"
#include "core/config/run_config.hpp"
#include "core/tensor/arena.hpp"

namespace plumbline {

/// fp32 elements of scratch that the CPU's blocked attention needs, with B = min(128, s) query rows at a
/// time: two B×s blocks of scores; four s×d copies of one head's keys, values and their gradients; three
/// B×d blocks of one head's queries, output gradients and result; one number per row.
std::int64_t attention_scratch_elements(const StageShape& shape);

/// Bytes that live for the whole run on a rank that holds these stages, and these of a teacher.
MemoryBreakdown held_bytes(std::span<const StageShape> stages, const RunConfig& config,
                           std::span<const StageShape> teachers = {});
/// The same for a rank with one stage.
MemoryBreakdown held_bytes(const StageShape& shape, const RunConfig& config);

}  // namespace plumbline
