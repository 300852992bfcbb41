// The loss of reinforcement learning's actor, over a vocabulary that is split by tensor ranks.
#pragma once

#include <vector>

#include "bench/training/ends/vocabulary_columns.hpp"
#include "bench/training/parameters/context.hpp"

namespace plumbline::training {

/// Turns the logits (T, v) into the gradient of the configuration's policy loss times `scale` and returns the
/// loss summed over the micro-batch. targets (1, T), tokens (4, T): Operators::policy_loss. Collective over
/// the tensor group.
Number policy_loss(const TrainingContext& context, const VocabularyColumns& columns, const Matrix& targets,
                   const Matrix& tokens, const Matrix& logits, double scale);

/// Log-probabilities of the targets on the host, any number of an ignored one; emulated: empty. Collective
/// over the tensor group.
std::vector<float> log_probabilities(const TrainingContext& context, const VocabularyColumns& columns,
                                     const Matrix& targets, const Matrix& logits);

}  // namespace plumbline::training
