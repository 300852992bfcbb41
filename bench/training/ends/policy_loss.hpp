// Losses of reinforcement learning: the actor's over a vocabulary split by tensor ranks, the critic's.
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

/// Likewise of the value loss, in place of values (T, 1).
Number value_loss(const TrainingContext& context, const VocabularyColumns& columns, const Matrix& targets,
                  const Matrix& tokens, const Matrix& logits, double scale);

/// Log-probabilities of the targets on the host, any number of an ignored one; emulated: empty. Collective
/// over the tensor group.
std::vector<float> log_probabilities(const TrainingContext& context, const VocabularyColumns& columns,
                                     const Matrix& targets, const Matrix& logits);

/// Values of all rows, likewise.
std::vector<float> token_values(const TrainingContext& context, const VocabularyColumns& columns,
                                const Matrix& targets, const Matrix& logits);

}  // namespace plumbline::training
