// The loss that compares a student's logits with its teacher's.
#pragma once

#include "bench/training/ends/output_end.hpp"

namespace plumbline::training {

/// bench/training/distillation.md has the formulas. The student's logits (T, v) become their gradient, the
/// teacher's, maybe of another type, are read. Returns the loss summed over the micro-batch's tokens that
/// have a target. Collective over the tensor group.
NumberSum distillation_loss(const RankResources& student, const VocabularyColumns& columns,
                            std::uint32_t microbatch, const Matrix& logits, const Matrix& teacher);

}  // namespace plumbline::training
