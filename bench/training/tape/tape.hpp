// The forward of a stage, recorded once: its operators on numbered tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "bench/training/parameters/context.hpp"
#include "bench/training/tape/step.hpp"

namespace plumbline::training {

/// Kind of a slot's memory.
struct SlotMemory {
  const char* holder = "";
  Category category = Category::activations;
  DType dtype = DType::fp32;
  bool by_plan = false;  // its category depends on the pass: a gradient's
  /// Memory that another object has, if any, given when it is first written.
  std::function<Matrix(std::uint32_t microbatch)> place{};
};

/// Leaves out slots that do not exist.
void remove_empty(Step& step);

/// Entries in order, and where blocks begin and end. Tensors of a block that a backward recomputes are freed
/// at its end; without a backward all are.
class Tape {
 public:
  /// `inference`: there is no backward.
  explicit Tape(const TrainingContext& of, bool inference = false) : context(of), inference_(inference) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  const TrainingContext& context;
  bool inference() const { return inference_; }

  /// A tensor of the forward in the storage type, in fp32, or as described.
  Slot slot(const char* holder) { return slot({holder, context.kept, context.config.numerics.precision}); }
  Slot fp32_slot(const char* holder) { return slot({holder, context.kept, DType::fp32}); }
  Slot slot(SlotMemory memory);
  /// The next value in the same memory, or another name for the same value.
  Slot overwritten(Slot slot);
  Slot view(Slot slot);
  const SlotMemory& memory(Slot slot) const { return memories_[static_cast<std::size_t>(slot.memory)]; }
  std::size_t memories() const { return memories_.size(); }
  SlotMemory& memory_of(int number) { return memories_[static_cast<std::size_t>(number)]; }
  /// True if its memory begins with this value, and the value that a view shows.
  bool fresh(Slot slot) const { return values_[static_cast<std::size_t>(slot.id)].fresh; }
  int value_of(Slot slot) const { return values_[static_cast<std::size_t>(slot.id)].same_as; }
  /// State of one more mixture.
  int mixture() { return mixtures_++; }
  int mixtures() const { return mixtures_; }

  void add(Entry entry);
  /// A place for a backward that a later entry brings.
  std::size_t postponed();
  void postpone(std::size_t to, Plan backward) { entries_[to].entry.backward = std::move(backward); }

  /// Nobody needs the gradient of the value.
  void stop_gradient(Slot slot) { values_[static_cast<std::size_t>(slot.id)].wanted = false; }
  bool wanted(Slot slot) const { return values_[static_cast<std::size_t>(slot.id)].wanted; }
  /// Something other than an entry's backward makes the gradient of `of`.
  void give_gradient(Slot of, Slot gradient) { given_.emplace_back(of, gradient); }
  const std::vector<std::pair<Slot, Slot>>& given_gradients() const { return given_; }
  /// The gradient of `of` goes there.
  void place_gradient(Slot of, Slot gradient) { placed_.emplace_back(of, gradient); }
  Slot placed_gradient(Slot of) const;

  /// A part of a layer that recomputes modules of its own: attention, feed-forward.
  void begin_half();
  void end_half();
  /// A layer. Where it is repeated as a whole, between `begin_use` and `end_use` of its values. `mark`: an
  /// entry behind it, which is not repeated.
  void begin_layer(Step begin_use);
  void end_layer(Step end_use, Entry mark);
  /// Layers that full recomputation repeats together.
  void begin_group() { groups_.push_back({layers_.size(), layers_.size()}); }
  void end_group() { groups_.back().end = layers_.size(); }
  /// From here to the end of the layer: the product that makes its output, and what follows.
  void begin_last_product() { last_product_ = true; }

  struct Recorded {
    Entry entry;
    int block = -1;             // innermost that frees tensors at its end
    bool last_product = false;  // begin_last_product()
  };
  /// Entries [begin, end).
  struct Layer {
    std::size_t begin = 0, end = 0;
    Step begin_use, end_use;
  };
  /// Layers [begin, end) that are recomputed together.
  struct Group {
    std::size_t begin = 0, end = 0;
  };
  const std::vector<Recorded>& entries() const { return entries_; }
  const std::vector<Layer>& layers() const { return layers_; }
  const std::vector<Group>& groups() const { return groups_; }
  int blocks() const { return blocks_; }
  /// The step of an entry that selective recomputation repeats, and the last block that reads its results, in
  /// whose backward they are made again.
  static const Step& repeated(const Recorded& each) {
    return each.entry.repeat.run ? each.entry.repeat : each.entry.forward;
  }
  int repeated_in(const Recorded& each) const;
  bool recomputes_all() const;

 private:
  struct Value {
    bool fresh = true;
    bool wanted = true;
    int same_as = -1;
  };
  bool blocks_are_layers() const { return inference_ || recomputes_all(); }

  const bool inference_;
  std::vector<SlotMemory> memories_;
  std::vector<Value> values_;
  int mixtures_ = 0;
  std::vector<Recorded> entries_;
  std::vector<Layer> layers_;
  std::vector<Group> groups_;
  std::vector<std::pair<Slot, Slot>> given_, placed_;
  int blocks_ = 0;
  int block_ = -1;
  bool last_product_ = false;
};

}  // namespace plumbline::training
