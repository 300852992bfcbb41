#include "bench/recovery/injector.hpp"

#include <cmath>
#include <utility>

#include "bench/recovery/rank_process.hpp"

namespace plumbline {

Injector::Injector(FailureSpec spec, int ranks, std::string mark)
    : spec_(std::move(spec)), ranks_(ranks), mark_(std::move(mark)), random_(spec_.seed), next_(draw()) {}

/// Exponential. From the bits of a generator that is the same everywhere: distributions of the library are not.
Seconds Injector::draw() {
  const double uniform = static_cast<double>(random_() >> 11U) * 0x1p-53;  // in [0, 1)
  return {-spec_.mtbf.value * std::log1p(-uniform)};
}

std::optional<Injector::Injury> Injector::look(Seconds now) {
  std::optional<Injury> done;
  while (next_ <= now && injuries_ < spec_.most) {
    const Injury injury{spec_.kinds[random_() % spec_.kinds.size()],
                        static_cast<int>(random_() % static_cast<std::uint64_t>(ranks_))};
    const bool missed = done.has_value() || now - next_ > Seconds{1};
    next_ += draw();
    if (missed) continue;
    const pid_t process = process_of_rank(mark_, injury.rank);
    if (process == 0 || !injure(process, injury.kind)) continue;
    if (injury.kind == Injected::disk) full_ = process;
    done = injury;
    ++injuries_;
  }
  return done;
}

void Injector::empty_disk() {
  if (full_ != 0) let_write(full_);
  full_ = 0;
}

}  // namespace plumbline
