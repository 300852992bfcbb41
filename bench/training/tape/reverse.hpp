// The plan of a backward: gradients of the values on a tape, operator by operator, last first.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "bench/training/tape/tape.hpp"

namespace plumbline::training {

/// A step of a program.
struct PlannedStep {
  Step step;
  Repeats repeats = Repeats::nothing;
  int block = -1;  // as Tape::Recorded
};

/// Gradients as an entry's Plan works with them. Where several entries read a value each makes a part of its
/// gradient, and the value's own entry adds them; the residual stream's is handed down instead.
class Reverse {
 public:
  /// `joint`: input and weight gradients in one action, B, not in I and W. `defers_output`: those of the
  /// output layer's weights are W's all the same.
  Reverse(Tape& tape, bool joint, bool defers_output);

  /// Visits all entries.
  void run();
  /// Input gradients, and weight gradients as far as they belong to another action.
  std::vector<PlannedStep> steps, later;

  const TrainingContext& context() const { return tape_.context; }
  bool joint() const { return joint_; }
  bool wanted(Slot of) const { return tape_.wanted(of); }

  /// Gradient of a value, all of whose readers have been visited; no slot: it has none. Throws Error if it is
  /// in parts.
  Slot gradient(Slot of) const;
  /// A reader's contribution: the gradient is the sum of factor · slot.
  struct Part {
    Slot slot;
    double factor = 1;
    bool handed_down = true;  // another value's gradient, too
  };
  std::vector<Part> parts(Slot of) const;
  /// A part of the gradient of `of`, in memory of its own. Without a category: workspace, or activations
  /// where weight gradients of another action read it.
  Slot make(Slot of, const char* holder);
  Slot make_fixed(Slot of, const char* holder, Category category);
  /// The same in the memory of `dy`, which is read for the last time, where that is no other value's.
  Slot make_over(Slot dy, Slot of, const char* holder);
  /// `gradient` is a part of it, too.
  void pass_on(Slot of, Slot gradient, double factor = 1) { gradients_[of.id].push_back({gradient, factor}); }
  /// The next value in a gradient's memory.
  Slot overwrite(Slot gradient) { return tape_.overwritten(gradient); }

  /// The residual stream's gradient `before` (none: 0) and after an operator has added to it. A split
  /// backward overwrites no gradient that was handed down.
  struct Sum {
    Slot before, after;
    bool in_place = false;  // both are the same memory
  };
  /// `instead`: a gradient that dies here, whose memory may be taken where there is none before.
  Sum accumulate(Slot of, const char* holder, Category apart, Slot instead = {});

  /// The residual stream's gradient lives to the end of B, also where nothing more is added to it.
  void hold(Slot gradient) { held_ = gradient; }

  /// Gradients of a product y = x·W: dx from dy, W's from dy and x. `both` computes them in one action.
  using Run = std::function<void(Pass&)>;
  struct Gradients {
    Run both, input, weight;
  };
  void product(Slot dy, Slot x, Slot dx, Gradients gradients);
  void step(Step step) { add(steps, std::move(step)); }
  /// A weight gradient; of the output layer's weights.
  void weights(Step step) { add(joint_ ? steps : later, std::move(step)); }
  void output_weights(Step step) { add(joint_ && !defers_output_ ? steps : later, std::move(step)); }

 private:
  bool read_later(Slot gradient) const;
  bool handed_down(Slot gradient) const;
  void find_repeats();
  void repeat_group(const Tape::Group& group);
  void repeat_layer(const Tape::Layer& layer, bool last);
  void repeat(const Step& step, Repeats what) { steps.push_back({step, what}); }
  static void add(std::vector<PlannedStep>& to, Step step) {
    remove_empty(step);
    to.push_back({std::move(step)});
  }

  Tape& tape_;
  const bool joint_;
  const bool defers_output_;
  std::map<int, std::vector<Part>> gradients_;  // by value
  Slot held_;
  std::vector<std::vector<const Step*>> repeats_;  // by block, at the begin of its backward
};

}  // namespace plumbline::training
