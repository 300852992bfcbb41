#include "analysis/search/search_space.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "analysis/hardware/profiles/software_arguments.hpp"
#include "analysis/hardware/software.hpp"
#include "analysis/predict/prediction_rows.hpp"
#include "analysis/predict/software_rows.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "core/config/config_checks.hpp"
#include "core/config/layer_distribution.hpp"

namespace plumbline {
namespace {

std::vector<int> divisors(int number) {
  std::vector<int> list;
  for (int d = 1; static_cast<std::int64_t>(d) * d <= number; ++d) {
    if (number % d != 0) continue;
    list.push_back(d);
    if (d != number / d) list.push_back(number / d);
  }
  std::sort(list.begin(), list.end());
  return list;
}

class RegionVisit {
 public:
  RegionVisit(const RunConfig& config, bool selective, const std::function<void(const SearchFamily&)>& visit)
      : config_(config),
        software_(software_of(config)),
        has_(software_arguments(config.machine.software)),
        selective_(selective),
        modules_(config.recompute.modules),
        visit_(visit) {}

  std::string run(const SearchRegion& region) {
    SearchKeys keys;
    keys.tensor = region.tensor;
    keys.pipeline = region.pipeline;
    keys.data = region.data;
    keys.context = region.context;
    keys.micro_batch = region.micro_batch;
    keys.expert = region.expert;
    keys.expert_tensor = region.expert_tensor;
    keys.dispatcher = region.dispatcher;
    microbatches_ = static_cast<int>(config_.batch.global_batch_size) / region.data / region.micro_batch;
    const std::int64_t layers = config_.model.layers;
    const int most = std::max<int>(1, static_cast<int>(layers) / keys.pipeline);
    for (int chunks = 1; chunks <= (keys.pipeline > 1 ? most : 1); ++chunks) {
      keys.chunks = chunks;
      if (uneven(keys) && !std::has_single_bit(static_cast<unsigned>(chunks))) continue;
      for (const bool sequence_parallel : {false, true}) {
        if (sequence_parallel && keys.tensor == 1) continue;
        keys.sequence_parallel = sequence_parallel;
        shared_sequences(keys);
      }
    }
    return std::move(refused_);
  }

 private:
  /// Stages that do not divide the layers. Megatron-Core takes them as a layout, so they are balanced.
  bool uneven(const SearchKeys& keys) const {
    return (keys.chunks > 1 || has_.even_stages) &&
           config_.model.layers % (static_cast<std::int64_t>(keys.pipeline) * keys.chunks) != 0;
  }

  void shared_sequences(SearchKeys keys) {
    for (const CpCommType type : {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a}) {
      if (keys.context == 1 && type != CpCommType::p2p) continue;
      keys.cp_comm_type = type;
      recomputations(keys);
    }
    keys.cp_comm_type = CpCommType::a2a_p2p;
    for (const int heads : divisors(keys.context)) {
      if (heads == 1 || heads == keys.context || config_.model.kv_heads / keys.tensor % heads != 0) continue;
      keys.head_ranks = heads;
      recomputations(keys);
    }
  }

  void recomputations(SearchKeys keys) {
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      if (recompute == Recompute::selective && !selective_) continue;
      keys.recompute = recompute;
      keys.recomputed = recompute == Recompute::selective ? modules_ : kCoreAttention;
      vocabularies(keys);
    }
  }

  void vocabularies(SearchKeys keys) {
    using enum VocabPasses;
    for (const VocabPasses vocabulary : {none, two_barriers, one_barrier, interlaced}) {
      if (vocabulary != none && (keys.pipeline == 1 || keys.chunks != 1)) continue;
      keys.vocabulary = vocabulary;
      placements(keys);
    }
  }

  std::vector<int> layers_of(const SearchKeys& keys) {
    set_keys(keys, config_);
    return layers_per_stage(config_, keys.pipeline * keys.chunks);
  }

  /// Layers evenly, and with fewer on the last stage if that is another placement.
  void placements(SearchKeys keys) {
    keys.balanced = false;
    const std::vector<int> even = layers_of(keys);
    for (const bool balanced : {false, true}) {
      keys.balanced = balanced;
      const std::vector<int> layers = balanced ? layers_of(keys) : even;
      if (uneven(keys) ? !balanced : balanced && layers == even) continue;
      for (std::size_t schedule = 0; schedule < search_schedules().size(); ++schedule) {
        keys.schedule = static_cast<std::uint8_t>(schedule);
        schedules(keys, *std::max_element(layers.begin(), layers.end()));
      }
    }
  }

  void schedules(SearchKeys keys, int most_layers) {
    const ScheduleTraits& traits = search_traits(keys.schedule);
    if (traits.any_chunks() ? keys.chunks < 2 : keys.chunks != traits.parts()) return;
    if (keys.pipeline == 1 && keys.schedule != 0) return;
    if (find_with_passes(traits.name, keys.vocabulary) == nullptr) return;
    if (traits.whole_groups && microbatches_ % keys.pipeline != 0) return;
    // Everything varied below is always possible. Choices that the software makes itself are not varied:
    // layouts would be listed several times.
    const bool sharded = software_.communication.sharded;
    const bool instances = config_.parallel.dp.optimizer_instances > 1;
    const bool on_host = config_.offload.optimizer_fraction > 0 && !software_.communication.buckets();
    keys.zero = sharded || config_.offload.params ? 3 : instances || on_host ? 1 : 0;
    keys.recompute_layers = 1;
    keys.half_gradients = false;
    set_keys(keys, config_);
    if (why_unsearched(config_)) return;
    auto reason = why_invalid(config_);
    if (!reason && (keys.context > 1 || config_.spreads_experts())) reason = why_unpredictable(config_);
    if (reason) {
      refused_ = *reason;
      return;
    }
    SearchFamily family;
    family.keys = keys;
    family.groups = keys.recompute == Recompute::full && has_.recompute_groups ? most_layers : 1;
    family.halves = software_.memory.gradient_bytes_in(config_.numerics.precision == DType::bf16) > 2 &&
                    has_.bf16_gradients;
    const int least_zero = keys.zero;
    const int most_zero =
        keys.data * keys.context == 1 ? least_zero : std::max(least_zero, most_zero_stage(config_));
    for (int zero = least_zero; zero <= most_zero; ++zero) {
      if (zero > 0 && config_.model.mixture) {
        keys.zero = zero;
        set_keys(keys, config_);
        if (why_invalid(config_) || why_model_unlisted(config_, software_)) continue;
      }
      if (family.size() == 0) family.keys.zero = zero;
      family.has_zero[static_cast<std::size_t>(zero)] = true;
    }
    if (family.size() > 0) visit_(family);
  }

  RunConfig config_;
  const Software& software_;
  const SoftwareArguments& has_;
  bool selective_;
  RecomputeModules modules_;  // of selective recomputation
  const std::function<void(const SearchFamily&)>& visit_;
  int microbatches_ = 1;
  std::string refused_;
};

std::vector<TokenDispatcher> dispatchers_of(const RunConfig& config) {
  if (config.parallel.ep.token_dispatcher != TokenDispatcher::automatic)
    return {config.parallel.ep.token_dispatcher};
  const Software& software = software_of(config);
  std::vector<TokenDispatcher> list = {TokenDispatcher::alltoall};
  // Megatron-Core has it, with buckets; other software does not.
  if (software.own_step || software.communication.buckets()) list.push_back(TokenDispatcher::allgather);
  if (software.mixtures.flex_dispatch) list.insert(list.begin(), TokenDispatcher::flex);
  return list;
}

/// `region` with every way to spread the MoE experts over its ranks, and with none.
void add_expert_splits(const RunConfig& config, SearchRegion region, int most,
                       const std::vector<TokenDispatcher>& dispatchers, std::vector<SearchRegion>& regions) {
  region.dispatcher = config.parallel.ep.token_dispatcher;
  regions.push_back(region);
  if (!config.model.mixture) return;
  const int ranks = region.tensor * region.context * region.data;
  for (const int expert : divisors(static_cast<int>(config.model.mixture.experts))) {
    if (most > 0 && expert > most) break;
    for (const int expert_tensor : divisors(region.tensor)) {
      const bool as_tensor = expert_tensor == region.tensor;
      if (ranks % (expert * expert_tensor) != 0 || (expert == 1 && as_tensor)) continue;
      region.expert = expert;
      region.expert_tensor = as_tensor ? 0 : expert_tensor;
      for (const TokenDispatcher dispatcher : dispatchers) {
        region.dispatcher = dispatcher;
        regions.push_back(region);
      }
    }
  }
}

}  // namespace

int context_for_sequence(std::int64_t seq_length) {
  constexpr std::int64_t kTokensOfRank = 8192;
  constexpr std::int64_t kMost = 32;
  return static_cast<int>(std::clamp<std::int64_t>(seq_length / kTokensOfRank, 1, kMost));
}

std::vector<SearchRegion> search_regions(const RunConfig& config, const SearchLimits& limits) {
  const std::vector<TokenDispatcher> dispatchers = dispatchers_of(config);
  std::vector<SearchRegion> regions;
  const int world = config.parallel.world_size;
  const int most_context =
      limits.context > 0 ? limits.context : context_for_sequence(config.batch.seq_length);
  const auto batch = static_cast<int>(config.batch.global_batch_size);
  constexpr int kMostStages = 256;
  for (const int tensor : divisors(world)) {
    if (config.model.heads % tensor != 0 || config.model.ffn % tensor != 0) continue;
    for (const int pipeline : divisors(world / tensor)) {
      if (pipeline > config.model.layers || pipeline > kMostStages) continue;
      for (const int context : divisors(world / tensor / pipeline)) {
        if (context > most_context) break;
        const int data = world / tensor / pipeline / context;
        if (batch % data != 0) continue;
        for (const int micro_batch : divisors(batch / data)) {
          SearchRegion region;
          region.tensor = tensor;
          region.pipeline = pipeline;
          region.data = data;
          region.context = context;
          region.micro_batch = micro_batch;
          add_expert_splits(config, region, limits.expert, dispatchers, regions);
        }
      }
    }
  }
  return regions;
}

std::string visit_region(const RunConfig& config, const SearchRegion& region, bool selective,
                         const std::function<void(const SearchFamily&)>& visit) {
  return RegionVisit(config, selective, visit).run(region);
}

}  // namespace plumbline
