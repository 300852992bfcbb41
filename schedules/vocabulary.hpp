// Vocabulary parallelism in the pipeline: passes of the split output and input layers, inserted into a
// schedule.
#pragma once

#include "core/schedule/schedule.hpp"
#include "schedules/vocab_times.hpp"

namespace plumbline {

/// Inserts S and T on every rank for every micro-batch, and IF and IB when `input_layer` is split too. A run
/// with the given times decides the order: a rank does a pass at the first opportunity after it can be done
/// (S after the last stage's F, T after every S, IF one micro-batch ahead of the first stage, IB after the
/// first stage's backward). Its F, B and I keep their order. W's fill waiting wherever that makes the step
/// shorter, within the schedule's own peak. The schedule must leave time between the last stage's F and its
/// backward: see vocab_one_f_one_b and vocab_v_half. Takes compute actions only.
Schedule insert_vocab_passes(const Schedule& schedule, VocabPasses passes, bool input_layer,
                             VocabTimes times);

/// 1F1B with vocabulary passes (Yeung et al. 2024, arXiv:2411.05288 §4, §5). Forwards in advance of the
/// first backward: two more than 1F1B with two barriers (P+2 micro-batches in flight), one more with one
/// barrier (P+1), P/2 more when interlaced (1.5 P).
Schedule vocab_one_f_one_b(int ranks, int microbatches, VocabPasses passes, bool input_layer = true,
                           VocabTimes times = {});

/// V-Half with vocabulary passes: backwards start one (one barrier) or two building blocks (two barriers)
/// later.
Schedule vocab_v_half(int ranks, int microbatches, VocabPasses passes, bool input_layer = true,
                      VocabTimes times = {});

}  // namespace plumbline
