// Injures the ranks of a run at the times of a failure sequence.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "bench/run/recovery/failure_sequence.hpp"

namespace plumbline {

class Injector {
 public:
  /// `mark`: see process_of_rank.
  Injector(const FailureSpec& spec, int ranks, std::string mark);

  /// The failure that was due at `now` (since the first step began) and has been done to its rank. While
  /// ranks are being started (not `training`) a due failure waits for its rank's process; a full disk then
  /// has no effect: no rank writes. Only the first `there` ranks are present: failures of others have no
  /// effect.
  std::optional<PlannedFailure> look(Seconds now, bool training, int there);
  /// Drops the due failure without effect: its ranks were lost already, or there are none.
  void pass(Seconds now);
  /// The disks that were filled have room again.
  void empty_disks();

 private:
  FailureSequence sequence_;
  const std::string mark_;
  const std::uint64_t most_;
  std::uint64_t done_ = 0;
  std::vector<pid_t> full_;  // processes that cannot write
};

}  // namespace plumbline
