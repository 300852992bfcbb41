#include "bench/cuda/first_step.hpp"

#include <fmt/format.h>

#include "core/base/standard_streams.hpp"
#include "kernels/cuda/cuda_operators.hpp"

namespace plumbline {

void FirstStep::step_begins(int index) {
  index_ = index;
  if (index >= warmup_steps_) sampler_.start();
}

void FirstStep::step_ends(Seconds /*origin*/, std::vector<Event>& /*events*/,
                          Seconds& /*tensor_communication*/) {
  sampler_.stop();
  if (index_ == 0) say_fallbacks();
}

void FirstStep::say_fallbacks() const {
  const Coordinates at = communicator_.layout().coordinates(communicator_.rank());
  if (at.tensor != 0 || at.data != 0) return;
  for (const KernelChoice& choice : cuda_choices(operators_)) {
    if (choice.why.empty()) continue;
    say(fmt::format("note: rank {}: {}: {}, for {}\n", communicator_.rank(), choice.call, choice.by,
                    choice.why));
  }
}

}  // namespace plumbline
