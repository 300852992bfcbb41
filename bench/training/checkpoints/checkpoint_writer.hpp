// Writes a run's checkpoints: copies states, writes shards here or alongside the next steps, agrees with the
// other ranks, and makes the checkpoint complete.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "bench/training/checkpoints/checkpoint_options.hpp"
#include "bench/training/checkpoints/shard_writer.hpp"
#include "core/run/communicator.hpp"

namespace plumbline::training {

/// Progress of a rank's shard. Plain memory, so that it can travel.
struct ShardProgress {
  enum class State : std::int32_t { writing, written, failed };
  State state = State::writing;
  std::uint32_t crc = 0;
  std::int64_t bytes = 0;
};

class CheckpointWriter {
 public:
  /// `say` takes lines for people: a complete checkpoint (world rank 0), or why one failed (the failing
  /// rank).
  CheckpointWriter(const CheckpointOptions& options, const RankStages& stages, Communicator& control,
                   std::function<void(const std::string&)> say);

  /// After step `losses.size()`: starts a checkpoint if it is due, or after the last of `all` steps.
  /// Otherwise looks after the one that is being written. A failed checkpoint is reported and counted; the
  /// run continues. Collective.
  void step_ended(const std::vector<double>& losses, std::int64_t all);
  /// Waits for the one that is being written. Collective.
  void finish() { settle(true); }
  const CheckpointCosts& costs() const { return costs_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Saving {
    CheckpointFacts facts;
    Clock::time_point began;
    Seconds stall;
    std::future<ShardProgress> shard;
    ShardProgress mine;
  };
  struct Committed {
    bool complete = false;
    Clock::time_point at;
  };
  struct Committing {
    Saving saving;
    std::future<Committed> end;
  };

  void save(const std::vector<double>& losses);
  void save_here(Saving saving);
  /// The shard and the commit that go on alongside: are they through? `wait`: until they are.
  void settle(bool wait);
  ShardProgress write_shard(std::int64_t step) const;
  /// Puts the shards' facts in; false when one failed, which is counted, and its folder removed.
  bool take_shards(CheckpointFacts& facts, const std::vector<ShardProgress>& shards);
  Committed commit(const CheckpointFacts& facts) const;
  void conclude(const Saving& saving, const Committed& end);
  std::vector<ShardProgress> from_every_rank(const ShardProgress& mine) const;
  bool first() const { return control_.rank() == 0; }

  const CheckpointOptions options_;
  const RankStages& stages_;
  Communicator& control_;
  const std::function<void(const std::string&)> say_;
  const std::vector<std::pair<std::string, std::string>> identity_;
  const std::vector<std::pair<std::string, std::string>> split_;
  ShardWriter shard_;
  CheckpointCosts costs_;
  std::optional<Saving> saving_;          // on every rank alike
  std::optional<Committing> committing_;  // on world rank 0
};

}  // namespace plumbline::training
