// Every schedule the library knows, one generator each. All return compute actions only; passes.hpp adds
// transfers and the end of the step. They throw InputError with the constraint when the sizes do not allow
// the schedule. Formulas and citations are on top of the .cpp files.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/units.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

Schedule gpipe(int ranks, int microbatches);
Schedule one_f_one_b(int ranks, int microbatches);
/// 1F1B whose ranks do `ahead` more forwards before their first backward: time for the dependencies of the
/// last stage's backward (vocabulary passes). Rank r holds min(P-r+ahead, M) activations.
Schedule one_f_one_b_ahead(int ranks, int microbatches, int ahead);
/// 1F1B in which every forward overlaps with the backward behind it, of an earlier micro-batch than any whose
/// result that needs. Twice as many forwards come before the first backward, and one more. Rank r holds
/// min(2(P-r), M) activations.
Schedule one_f_one_b_pairs(int ranks, int microbatches);
/// `pairs`: a steady forward and the backward behind it overlap, after one more forward (Megatron-Core's
/// overlap_moe_expert_parallel_comm). Micro-batches in groups of `group`, ranks <= group <= microbatches; the
/// usual choice is group = ranks.
Schedule interleaved(int ranks, int microbatches, int chunks, int group, bool pairs = false);
Schedule zb_h1(int ranks, int microbatches);
Schedule zb_h2(int ranks, int microbatches);
Schedule v_half(int ranks, int microbatches);
/// V-Half whose backwards start `blocks` building blocks (of 6 slots) later.
Schedule v_half_ahead(int ranks, int microbatches, int blocks);
Schedule v_min(int ranks, int microbatches);

/// Input of the automatic zero-bubble scheduler: times per rank and micro-batch, and the memory of a rank.
struct ZeroBubbleCosts {
  std::vector<Seconds> forward;
  std::vector<Seconds> backward_input;
  std::vector<Seconds> backward_weight;
  Seconds transfer;
  double memory_limit = 0;        // activations a rank may hold, in micro-batches
  double held_after_input = 1.0;  // part of an activation that is still held between I and W
};
Schedule zb_auto(int ranks, int microbatches, const ZeroBubbleCosts& costs);
Schedule zb_v(int ranks, int microbatches);
Schedule distillation_nemo_2504(int ranks, int microbatches);
Schedule distillation_abeja(int ranks, int microbatches);
Schedule distillation_nemo_13065(int ranks, int microbatches);

/// Times per rank and micro-batch that a distillation is ordered by; only their ratios matter.
struct DistillationTimes {
  std::vector<Seconds> teacher;            // TF
  std::vector<Seconds> forward;            // F
  std::vector<Seconds> backward;           // B
  std::vector<Seconds> backward_input{};   // I
  std::vector<Seconds> backward_weight{};  // W; without both the backward is never split
  Seconds transfer{};                      // of a message of the student between ranks
  Seconds teacher_transfer{};              // of the teacher
};
/// Room for the student's activations, per rank.
struct DistillationRoom {
  std::vector<double> activations;  // in micro-batches of the rank's stage; at least 1F1B's P-r
  std::vector<double> deferred;     // part of one that is still held between I and W
  std::vector<bool> may_split;      // true if its backward may be split
};
/// 1F1B's P-r activations on rank r, all of each kept until W.
DistillationRoom room_of_one_f_one_b(int ranks);
/// At most `cached` >= 1 teacher outputs wait for their loss on the last stage.
Schedule distillation_bubble_fill(int ranks, int microbatches, std::int64_t cached,
                                  const DistillationTimes& times, const DistillationRoom& room);
/// The same with room_of_one_f_one_b.
Schedule distillation_bubble_fill(int ranks, int microbatches, std::int64_t cached,
                                  const DistillationTimes& times);
Schedule dualpipe(int ranks, int microbatches);
Schedule dualpipe_v(int ranks, int microbatches);

}  // namespace plumbline
