// A distillation step simulated while its order is being decided: the next action of each rank.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/schedule/schedule.hpp"
#include "schedules/generators.hpp"

namespace plumbline {

/// Parameters of a greedy order.
struct AheadPolicy {
  /// The teacher stops on the last stage while this many of its outputs wait for their loss.
  std::int64_t ahead = 1;
  /// Backwards in two parts on the ranks that may.
  bool split = true;
  /// A rank that could start a less urgent action waits for a more urgent one that is ready before this share
  /// of the former's time has passed.
  double patience = 0;
};

/// Plays TF, F, B, I and W of every rank, one stage per rank. An order comes about greedily, or is given.
/// Messages take the times' transfer; a stage makes a result only when the next one has taken the one before
/// (one send buffer per stage).
class TeacherAhead {
 public:
  /// The arguments must outlive it.
  TeacherAhead(int ranks, int microbatches, const DistillationTimes& times, const DistillationRoom& room,
               const AheadPolicy& policy);

  /// A free rank does the action that can start first. Of several it takes the first of this list: B or I, as
  /// soon as the next stage's is done; F of the next micro-batch, if its TF is done here and its activation
  /// has room; TF of the next micro-batch; W of the oldest I. Returns the step's length, infinity if the room
  /// does not let it end.
  double play();
  /// In the order of `schedule`, which has TF, F and B only. Room and policy do not count.
  double play(const Schedule& schedule);

  /// Result of play().
  Schedule take(const char* name);

 private:
  enum Kind : std::size_t { kGradient, kForward, kTeacher, kWeight };  // by urgency; kGradient is B or I
  static constexpr std::size_t kKinds = 4;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct Rank {
    bool split = false;
    double clock = 0;
    double held = 0;  // activations
    std::array<std::vector<double>, kKinds> start;
    std::array<std::vector<double>, kKinds> end;
    std::vector<Kind> order;
    std::vector<Kind> forwards;  // TF and F of them
    int done(Kind kind) const { return static_cast<int>(end[kind].size()); }
  };
  struct Choice {
    Kind kind = kTeacher;
    double start = kNever;
  };

  Rank& at(int rank) { return state_[static_cast<std::size_t>(rank)]; }
  const Rank& at(int rank) const { return state_[static_cast<std::size_t>(rank)]; }
  bool is_last(int rank) const { return rank == ranks_ - 1; }

  double ready(int rank, Kind kind) const;
  bool is_turn_of(int rank, Kind kind) const;
  double teacher_ready(int rank) const;
  double forward_ready(int rank) const;
  double gradient_ready(int rank) const;
  bool has_room(int rank) const;
  double duration(int rank, Kind kind) const;
  Choice next(int rank) const;
  Choice next_given(int rank) const;
  void start(int rank, const Choice& choice);
  double run();

  int ranks_;
  int microbatches_;
  const DistillationTimes& times_;
  const DistillationRoom& room_;
  AheadPolicy policy_;
  std::vector<Rank> state_;
  std::vector<std::vector<Kind>> given_;  // by rank; empty: greedy
};

}  // namespace plumbline
