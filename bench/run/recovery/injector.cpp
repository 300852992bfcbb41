#include "bench/run/recovery/injector.hpp"

#include <utility>

#include "bench/run/recovery/rank_process.hpp"

namespace plumbline {

Injector::Injector(const FailureSpec& spec, int ranks, std::string mark)
    : sequence_(spec, ranks), mark_(std::move(mark)), most_(spec.most) {}

std::optional<PlannedFailure> Injector::look(Seconds now, bool training, int there) {
  while (sequence_.next().at <= now && done_ < most_) {
    const PlannedFailure failure = sequence_.next();
    if (failure.rank < there && (failure.kind != Injected::disk || training)) {
      const pid_t process = process_of_rank(mark_, failure.rank);
      if (process == 0 || !injure(process, failure.kind)) return std::nullopt;
      if (failure.kind == Injected::disk) full_.push_back(process);
      ++done_;
      sequence_.advance();
      return failure;
    }
    sequence_.advance();
  }
  return std::nullopt;
}

void Injector::pass(Seconds now) {
  while (sequence_.next().at <= now) sequence_.advance();
}

void Injector::empty_disks() {
  for (const pid_t process : full_) let_write(process);
  full_.clear();
}

}  // namespace plumbline
