#include "bench/training/checkpoints/checkpoint_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "bench/training/checkpoints/run_identity.hpp"
#include "core/base/error.hpp"

namespace plumbline::training {
namespace {

Seconds between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return {std::chrono::duration<double>(to - from).count()};
}

template <class T>
bool is_ready(const std::future<T>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

/// On a thread of its own, or when its result is needed where the system makes no more threads.
constexpr std::launch kBeside = std::launch::async | std::launch::deferred;
constexpr ShardProgress kFailed{ShardProgress::State::failed, 0, 0};
constexpr ShardProgress kWell{ShardProgress::State::written, 0, 0};

bool any(const std::vector<ShardProgress>& shards, ShardProgress::State state) {
  return std::any_of(shards.begin(), shards.end(),
                     [&](const ShardProgress& shard) { return shard.state == state; });
}

}  // namespace

CheckpointWriter::CheckpointWriter(const CheckpointOptions& options, const RankStages& stages,
                                   Communicator& control, std::function<void(const std::string&)> say)
    : options_(options),
      stages_(stages),
      control_(control),
      say_(std::move(say)),
      identity_(identity_of(stages.context().config)),
      split_(split_of(stages.context().config)),
      shard_(stages) {
  costs_.largest_buffer = shard_.buffer();
  for (const ShardProgress& rank : from_every_rank({ShardProgress::State::written, 0, shard_.buffer().value}))
    costs_.largest_buffer = {std::max(costs_.largest_buffer.value, rank.bytes)};
}

void CheckpointWriter::step_ended(const std::vector<double>& losses, std::int64_t all) {
  settle(false);
  const std::int64_t step = std::ssize(losses);
  if (step == all || (options_.interval > 0 && step % options_.interval == 0)) save(losses);
}

void CheckpointWriter::save(const std::vector<double>& losses) {
  Saving saving;
  saving.began = Clock::now();
  settle(true);  // one at a time: there is one buffer
  saving.facts = {std::ssize(losses), identity_, split_, losses, {}, stages_.loss_scale()};
  ShardProgress folder = kWell;
  if (first()) {
    try {
      begin_step_folder(options_.folder, saving.facts.step);
    } catch (const Error& error) {
      say_(fmt::format("note: checkpoint of step {} is not written: {}\n", saving.facts.step, error.what()));
      folder = kFailed;
    }
  }
  if (any(from_every_rank(folder), ShardProgress::State::failed)) {
    ++costs_.failed;
    return;
  }
  shard_.copy();
  if (!options_.async) return save_here(std::move(saving));
  saving.shard = std::async(kBeside, [this, step = saving.facts.step] { return write_shard(step); });
  saving.stall = between(saving.began, Clock::now());
  saving_ = std::move(saving);
}

void CheckpointWriter::save_here(Saving saving) {
  const auto shards = from_every_rank(write_shard(saving.facts.step));
  if (!take_shards(saving.facts, shards)) return;
  Committed end{true, {}};
  if (first()) end = commit(saving.facts);
  from_every_rank(kWell);  // nobody continues before it is complete
  saving.stall = between(saving.began, Clock::now());
  if (first()) conclude(saving, end);
}

void CheckpointWriter::settle(bool wait) {
  if (saving_) {
    ShardProgress& mine = saving_->mine;
    if (mine.state == ShardProgress::State::writing && (wait || is_ready(saving_->shard)))
      mine = saving_->shard.get();
    const std::vector<ShardProgress> shards = from_every_rank(mine);
    if (!any(shards, ShardProgress::State::writing)) {
      if (take_shards(saving_->facts, shards) && first()) {
        auto end = std::async(kBeside, [this, facts = saving_->facts] { return commit(facts); });
        committing_ = Committing{std::move(*saving_), std::move(end)};
      }
      saving_.reset();
    }
  }
  if (committing_ && (wait || is_ready(committing_->end))) {
    conclude(committing_->saving, committing_->end.get());
    committing_.reset();
  }
}

ShardProgress CheckpointWriter::write_shard(std::int64_t step) const {
  try {
    const std::string folder = unfinished_folder(options_.folder, step);
    const ShardFacts facts = shard_.write(shard_path(folder, control_.rank()));
    return {ShardProgress::State::written, facts.crc, facts.bytes.value};
  } catch (const Error& error) {
    say_(fmt::format("note: checkpoint of step {} is not written: {}\n", step, error.what()));
    return kFailed;
  }
}

bool CheckpointWriter::take_shards(CheckpointFacts& facts, const std::vector<ShardProgress>& shards) {
  if (any(shards, ShardProgress::State::failed)) {
    ++costs_.failed;
    std::error_code ignored;
    if (first()) std::filesystem::remove_all(unfinished_folder(options_.folder, facts.step), ignored);
    return false;
  }
  facts.shards.reserve(shards.size());
  for (const ShardProgress& shard : shards) facts.shards.push_back({{shard.bytes}, shard.crc});
  return true;
}

CheckpointWriter::Committed CheckpointWriter::commit(const CheckpointFacts& facts) const {
  Committed end;
  try {
    commit_step_folder(options_.folder, facts);
    end.complete = true;
    end.at = Clock::now();
    remove_old(options_.folder, facts.step, options_.keep);
  } catch (const Error& error) {
    say_(fmt::format("note: checkpoint of step {}: {}\n", facts.step, error.what()));
    std::error_code ignored;
    if (!end.complete) std::filesystem::remove_all(unfinished_folder(options_.folder, facts.step), ignored);
  }
  return end;
}

void CheckpointWriter::conclude(const Saving& saving, const Committed& end) {
  if (!end.complete) {
    ++costs_.failed;
    return;
  }
  ++costs_.written;
  costs_.bytes = {};
  for (const ShardFacts& shard : saving.facts.shards) costs_.bytes = {costs_.bytes.value + shard.bytes.value};
  costs_.stalls.push_back(saving.stall);
  costs_.durable.push_back(between(saving.began, end.at));
  say_(fmt::format("checkpoint of step {} complete: stood still {:.6f} s, durable after {:.6f} s\n",
                   saving.facts.step, saving.stall.value, costs_.durable.back().value));
}

std::vector<ShardProgress> CheckpointWriter::from_every_rank(const ShardProgress& mine) const {
  constexpr std::int64_t kWords = sizeof(ShardProgress) / sizeof(std::int32_t);
  std::vector<ShardProgress> all(static_cast<std::size_t>(control_.layout().world()));
  ShardProgress copy = mine;
  control_.all_gather(Group::world, Matrix(&copy, 1, kWords, DType::int32),
                      Matrix(all.data(), 1, kWords * std::ssize(all), DType::int32));
  return all;
}

}  // namespace plumbline::training
