// Actions of a stage as lists of steps, with the places where memory is freed.
#pragma once

#include <functional>
#include <vector>

#include "bench/training/tape/tape.hpp"

namespace plumbline::training {

/// Steps of one action.
class Program {
 public:
  struct Instruction {
    std::function<void(Pass&)> run;  // may be empty
    Repeats repeats = Repeats::nothing;
    std::vector<int> released;  // memory, afterwards
  };
  std::vector<Instruction> instructions;
  /// Units whose values it uses, in order; experts that are spread over ranks apart.
  std::vector<int> units, expert_units;

  /// Allocates nothing but tensors.
  void run(Pass& pass) const;
};

/// The actions of a stage: F; B; I and W.
struct Programs {
  Program forward, backward, input, weight;
  std::vector<bool> kept;  // memory that a backward reads as a forward left it
};

/// `defers_output`: the output layer's weight gradients are W's, all others belong to B and I. Throws Error
/// if a value is read whose memory another one has taken.
Programs make_programs(Tape& tape, bool defers_output = false);

/// The forward alone, of which `result` is left.
Program make_forward(Tape& tape, Slot result);

}  // namespace plumbline::training
