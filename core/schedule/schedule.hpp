// A pipeline schedule as plain data: for every rank an ordered list of actions. Generated once, read by the
// simulator and by the executor alike.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule/vocab_passes.hpp"

namespace plumbline {

enum class ActionType : std::uint8_t {
  forward,           // F
  backward,          // B: input and weight gradients together
  backward_input,    // I
  backward_weight,   // W
  send_forward,      // SEND_F: activation of this stage to the next
  receive_forward,   // RECV_F: activation of the previous stage
  send_backward,     // SEND_B: gradient of this stage's input to the previous
  receive_backward,  // RECV_B: gradient of this stage's output from the next
  teacher_forward,   // TF
  vocab_forward,     // S: vocabulary-parallel output layer, first pass
  vocab_backward,    // T: its gradient pass
  input_forward,     // IF: vocabulary-parallel input layer
  input_backward,    // IB
  reduce_gradients,  // ARG: the rest of the data-parallel reduction
  reduce_embedding,  // ARE: tied-embedding gradients over {first, last}
  optimizer,         // OPT
  send_teacher,      // SEND_TF: teacher activation of this stage to the next
  receive_teacher,   // RECV_TF: teacher activation of the previous stage
};
constexpr int kActionTypes = 18;

/// The letters of the text form: "F", "SEND_F", …
std::string_view name_of(ActionType type);
constexpr bool is_send(ActionType type) {
  return type == ActionType::send_forward || type == ActionType::send_backward ||
         type == ActionType::send_teacher;
}
constexpr bool is_receive(ActionType type) {
  return type == ActionType::receive_forward || type == ActionType::receive_backward ||
         type == ActionType::receive_teacher;
}
/// One half of a message (core/schedule/hop.hpp).
constexpr bool is_transfer(ActionType type) {
  return is_send(type) || is_receive(type);
}
/// Computes on the rank's processor for one micro-batch (not a transfer, reduction or optimizer step).
constexpr bool is_compute(ActionType type) {
  return !is_transfer(type) && type != ActionType::reduce_gradients && type != ActionType::reduce_embedding &&
         type != ActionType::optimizer;
}

/// One thing a rank does. Dependencies follow from (type, stage, microbatch). 8 bytes.
struct Action {
  ActionType type = ActionType::forward;
  bool overlaps_next = false;  // runs together with the next action: `(a;b)OVERLAP_F_B`
  std::uint16_t stage = 0;     // global model stage
  std::uint32_t microbatch = 0;
  friend bool operator==(const Action&, const Action&) = default;
};
static_assert(sizeof(Action) == 8);

/// "3F7": stage, type, micro-batch.
std::string to_string(const Action& action);

/// Largest sizes of a schedule: the widths of Action's members.
inline constexpr int kMaxRanks = 65535;
inline constexpr int kMaxStages = 65535;
inline constexpr std::uint32_t kMaxMicrobatches = std::uint32_t{1} << 30;
/// Limit for written-out actions, half a GiB. A longer step must repeat itself (repeated_schedule.hpp).
inline constexpr std::int64_t kMostActions = std::int64_t{1} << 26;
/// Throws InputError for more than kMostActions.
void check_actions(const std::string& name, std::int64_t actions);

struct Schedule {
  std::string name;
  int ranks = 1;         // pipeline ranks
  int stages = 1;        // model stages; a rank holds several when interleaved
  int microbatches = 1;  // per data-parallel replica and step
  /// Micro-batch m flows through the stages [d·stages/routes, (d+1)·stages/routes) with d =
  /// m·routes/microbatches. 1 except for bidirectional schedules (DualPipe), where each route is a copy of
  /// the whole model.
  int routes = 1;
  /// All ranks meet before the optimizer (gradient norm); without, a rank may run ahead into the next step.
  bool barrier_at_end = true;
  VocabPasses vocab = VocabPasses::none;
  /// Teacher and student activations of a micro-batch travel in one message, sent after the student's F.
  bool joint_teacher = false;
  /// The last stage's I makes all gradients except that of the output layer's weight, which its W makes; the
  /// other stages have B (defer_output_gradients).
  bool defers_output_gradient = false;
  std::vector<int> rank_of_stage;            // stages entries
  std::vector<std::vector<Action>> actions;  // ranks entries

  int stages_per_route() const { return stages / routes; }
  int route_of(std::uint32_t microbatch) const {
    return static_cast<int>(static_cast<std::int64_t>(microbatch) * routes / microbatches);
  }
  bool first_of_route(int stage) const { return stage % stages_per_route() == 0; }
  bool last_of_route(int stage) const { return (stage + 1) % stages_per_route() == 0; }
  /// A result passed between these stages needs a transfer.
  bool crosses_ranks(int stage, int other) const {
    return rank_of_stage[static_cast<std::size_t>(stage)] != rank_of_stage[static_cast<std::size_t>(other)];
  }
};

/// Types of action in a schedule.
using ActionTypes = std::array<bool, kActionTypes>;
ActionTypes types_in(const Schedule& schedule);

/// Most activations that a rank holds at once, in full-stage micro-batches: from F until B, or until W where
/// the backward is split for all of its layers. A stage counts for its share of the rank's layers.
double peak_in_flight(const Schedule& schedule, int rank);

}  // namespace plumbline
