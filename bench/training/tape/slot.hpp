// Tensors of a micro-batch on a stage, by number.
#pragma once

namespace plumbline::training {

/// A value on a tape. Values that are in the same memory, views or one after the other, share its number.
struct Slot {
  int id = -1;
  int memory = -1;

  explicit operator bool() const { return id >= 0; }
};

}  // namespace plumbline::training
