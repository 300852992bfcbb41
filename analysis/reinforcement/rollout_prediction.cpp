#include "analysis/reinforcement/rollout_prediction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "analysis/serving/inference_engine.hpp"
#include "core/base/error.hpp"
#include "core/reinforcement/phases.hpp"

namespace plumbline {
namespace {

GenerationPrediction generation_of(const RunConfig& rollout, std::int64_t sequences, std::int64_t prompt,
                                   std::int64_t fresh, const HardwareProfile& hardware) {
  RunConfig batch = rollout;
  batch.batch.micro_batch_size = sequences;
  batch.batch.global_batch_size = sequences * batch.parallel.data();
  batch.generation.prompt_length = prompt;
  batch.generation.max_new_tokens = fresh;
  batch.batch.seq_length = std::max(batch.batch.seq_length, prompt + fresh);
  return predict_generation(batch, hardware);
}

/// Decoding steps between powers of two of the sequences and between three lengths, where time is nearly
/// linear in both.
class StepTimes {
 public:
  StepTimes(const RunConfig& rollout, const HardwareProfile& hardware)
      : rollout_(rollout),
        hardware_(hardware),
        least_(rollout.prompt_tokens()),
        most_(least_ + rollout.generation.max_new_tokens) {}

  Seconds of(std::int64_t sequences, double length) {
    std::int64_t below = 1;
    while (below * 2 <= sequences) below *= 2;
    const double above = static_cast<double>(sequences - below) / static_cast<double>(below);
    const Seconds first = at(below, length);
    return above == 0 ? first : first + (at(below * 2, length) - first) * above;
  }

 private:
  Seconds at(std::int64_t sequences, double length) {
    const std::int64_t middle = (least_ + most_) / 2;
    const bool late = length > static_cast<double>(middle);
    const std::int64_t from = late ? middle : least_;
    const std::int64_t to = late ? most_ : middle;
    const Seconds first = exact(sequences, from);
    if (to == from) return first;
    const double share =
        std::clamp((length - static_cast<double>(from)) / static_cast<double>(to - from), 0.0, 1.0);
    return first + (exact(sequences, to) - first) * share;
  }
  Seconds exact(std::int64_t sequences, std::int64_t length) {
    const auto [found, added] = known_.try_emplace({sequences, length});
    if (added)
      found->second = generation_of(rollout_, sequences, length, 2, hardware_).time.decode.front().step;
    return found->second;
  }

  const RunConfig& rollout_;
  const HardwareProfile& hardware_;
  const std::int64_t least_, most_;
  std::map<std::pair<std::int64_t, std::int64_t>, Seconds> known_;
};

/// Tokens that the cache of a replica has room for, beside weights and workspace.
std::int64_t room_for_tokens(const RunConfig& rollout, double share, const GenerationPrediction& batch,
                             std::int64_t tokens) {
  double room = std::numeric_limits<double>::max();
  for (const GenerationMemory& rank : batch.ranks) {
    if (rank.cache.value == 0) continue;
    const double bytes = room_for_cache(rollout, share, batch.limit, rank.parameters, rank.workspace);
    room = std::min(room, bytes / static_cast<double>(rank.cache.value) * static_cast<double>(tokens));
  }
  return static_cast<std::int64_t>(std::max(room, 0.0));
}

}  // namespace

RolloutPrediction predict_rollout(const RunConfig& config, std::span<const std::int64_t> lengths,
                                  const HardwareProfile& hardware) {
  const RunConfig rollout = rollout_config(config);
  const bool engine = is_inference_engine(rollout.machine.software);
  RolloutPrediction made;
  made.replicas = rollout.parallel.data();
  made.longest = *std::max_element(lengths.begin(), lengths.end());
  made.mean_response =
      std::accumulate(lengths.begin(), lengths.end(), 0.0) / static_cast<double>(lengths.size());
  const std::int64_t prompt = rollout.prompt_tokens();
  made.sequences_at_once = rollout.batch.micro_batch_size;
  made.at_once = predict_generation(rollout, hardware);
  made.cache_tokens = made.sequences_at_once * rollout.batch.seq_length;
  if (engine && made.at_once.limit.value > 0) {
    const double share = config.reinforcement.rollout.memory_utilization;
    made.cache_tokens = room_for_tokens(rollout, share, made.at_once, made.cache_tokens);
    const std::int64_t whole = prompt + made.longest;
    if (made.cache_tokens < whole) {
      throw InputError(fmt::format(
          "rollout_tensor_model_parallel_size: found {}, whose KV cache has room for {} tokens beside the "
          "weights, expected {} for the longest response; raise it, or raise gpu_memory_utilization",
          rollout.parallel.tensor, made.cache_tokens, whole));
    }
    const auto typical = static_cast<std::int64_t>(static_cast<double>(prompt) + made.mean_response);
    made.sequences_at_once = std::clamp<std::int64_t>(made.cache_tokens / typical, 1, made.sequences_at_once);
  }
  StepTimes times(rollout, hardware);
  const std::int64_t together =
      std::clamp<std::int64_t>(engine_pass_tokens(rollout) / prompt, 1, made.sequences_at_once);
  const Seconds pass = generation_of(rollout, together, prompt, 1, hardware).time.prefill;
  // Engines keep a prompt's cache for its group (automatic prefix caching: vLLM docs, features).
  const auto shared = static_cast<double>(engine ? config.reinforcement.group_size : 1);
  const RolloutPrices prices{
      [&](std::int64_t sequences, double length) { return times.of(sequences, length); },
      pass / (static_cast<double>(together) * shared)};
  for (std::int64_t replica = 0; replica < made.replicas; ++replica) {
    const auto all = std::ssize(lengths);
    const std::int64_t from = all * replica / made.replicas, to = all * (replica + 1) / made.replicas;
    const ReplicaRollout one =
        replica_rollout(lengths.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from)),
                        prompt, made.sequences_at_once, prices);
    made.mean += one.time / static_cast<double>(made.replicas);
    if (one.time > made.slowest.time) made.slowest = one;
  }
  return made;
}

}  // namespace plumbline
