// Steps of a tape, and the entries that they are recorded as.
#pragma once

#include <functional>
#include <vector>

#include "bench/training/tape/slot.hpp"

namespace plumbline::training {

class Pass;
class Reverse;

/// Work on some tensors, of which those that a layer lacks are left out. Memory that nobody reads later is
/// freed once it is done.
struct Step {
  std::vector<Slot> reads{};
  std::vector<Slot> makes{};
  std::function<void(Pass&)> run{};
  std::vector<int> units{};         // whose values it uses, in order
  std::vector<int> expert_units{};  // likewise, of experts that are spread over ranks
};

/// The part of a forward that a step of a backward repeats: none; a recomputed module, beside tensors that
/// were kept; or a layer, all of it.
enum class Repeats { nothing, module, layer };

/// Plans the backward of an entry: called last entry first, once for both gradients together and once for
/// each by itself.
using Plan = std::function<void(Reverse&)>;

/// An operator, or a point between operators.
struct Entry {
  Step forward{};   // may have nothing to run
  Plan backward{};  // may be empty
  /// Selective recomputation: forward() is repeated in the backward of its half of a layer, or `repeat` is.
  bool repeats = false;
  Step repeat{};
  bool between = false;  // belongs to no layer: full recomputation does not repeat it
  /// Full recomputation: what is repeated of it where nobody needs the layer's output.
  Step without_output{};
};

}  // namespace plumbline::training
