#include "analysis/search/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <thread>

#include "analysis/search/job_config.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline::cluster {
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

/// Part of the space that one thread works through at a time.
struct Region {
  int tensor, pipeline, data, micro_batch;
};

bool better(const Candidate& a, const Candidate& b) {
  if (a.step_s != b.step_s) return a.step_s < b.step_s;
  return a.peak_bytes < b.peak_bytes;
}

/// Candidates of which no other is both faster and smaller.
class Front {
 public:
  void offer(const Candidate& c) {
    // Ascending memory, descending time.
    auto at = std::lower_bound(list_.begin(), list_.end(), c, [](const Candidate& a, const Candidate& b) {
      return a.peak_bytes < b.peak_bytes;
    });
    if (at != list_.begin() && std::prev(at)->step_s <= c.step_s) return;
    if (at != list_.end() && at->peak_bytes == c.peak_bytes && at->step_s <= c.step_s) return;
    auto end = at;
    while (end != list_.end() && end->step_s >= c.step_s) ++end;
    at = list_.erase(at, end);
    list_.insert(at, c);
  }
  const std::vector<Candidate>& list() const { return list_; }

 private:
  std::vector<Candidate> list_;
};

class Worker {
 public:
  Worker(const SearchRequest& request, const Machine& machine, const Software& software, PipelinePlans& plans)
      : request_(request),
        software_(software),
        evaluator_(machine, software, plans),
        config_(request.config) {}

  void work(const Region& region) {
    Job job;
    job.model = request_.model;
    job.sequence = request_.sequence;
    job.hidden_dropout = request_.hidden_dropout;
    job.attention_dropout = request_.attention_dropout;
    job.tensor = region.tensor;
    job.pipeline = region.pipeline;
    job.data = region.data;
    job.micro_batch = region.micro_batch;
    job.microbatches = request_.global_batch / region.data / region.micro_batch;
    const int most_chunks = std::max(1, static_cast<int>(job.model.layers) / job.pipeline);
    for (int chunks = 1; chunks <= (job.pipeline > 1 ? most_chunks : 1); ++chunks) {
      if (chunks > 1 && std::fmod(job.model.layers, job.pipeline * chunks) != 0) continue;
      job.chunks = chunks;
      for (const bool sequence_parallel : {false, true}) {
        if (sequence_parallel && job.tensor == 1) continue;
        job.sequence_parallel = sequence_parallel;
        recomputations(job);
      }
    }
  }

  std::vector<Candidate> best;
  Front front;
  std::uint64_t configurations = 0;
  std::uint64_t fitting = 0;
  std::string refused;
  std::uint64_t simulated() const { return evaluator_.simulated(); }

 private:
  void recomputations(Job job) {
    job.recompute_layers = 1;
    job.recomputation = Recomputation::none;
    vocabularies(job);
    if (!software_.flash_attention || software_.selective_operators) {
      // Flash attention recomputes the scores by itself: nothing else is selected.
      job.recomputation = Recomputation::selective;
      vocabularies(job);
    }
    job.recomputation = Recomputation::full;
    vocabularies(job);
  }

  void vocabularies(Job job) {
    using enum VocabPasses;
    for (const VocabPasses vocabulary : {none, two_barriers, one_barrier, interlaced}) {
      if (vocabulary != none && (job.pipeline == 1 || job.chunks != 1)) continue;
      job.vocabulary = vocabulary;
      placements(job);
    }
  }

  /// Layers evenly, and with fewer on the last stage where that is another placement.
  void placements(Job job) {
    const StageLayers even = stage_layers(job);
    for (const bool balanced : {false, true}) {
      job.balanced = balanced;
      if (balanced && stage_layers(job) == even) continue;
      evaluator_.set_job(job);
      for (std::size_t schedule = 0; schedule < search_schedules().size(); ++schedule) {
        schedules(job, static_cast<std::uint8_t>(schedule));
      }
    }
  }

  void schedules(const Job& job, std::uint8_t schedule) {
    const ScheduleTraits& traits = search_traits(schedule);
    if (traits.any_chunks() ? job.chunks < 2 : job.chunks != traits.parts()) return;
    if (job.pipeline == 1 && schedule != 0) return;
    if (find_with_passes(traits.name, job.vocabulary) == nullptr) return;
    if (traits.whole_groups && job.microbatches % job.pipeline != 0) return;
    if (!legal(job, schedule) || !evaluator_.set_schedule(schedule)) return;
    // How many layers share a kept input changes what is held, not what is computed.
    const StageLayers placed = stage_layers(job);
    const int layers = static_cast<int>(std::max({placed.first, placed.middle, placed.last}));
    const int groups = job.recomputation == Recomputation::full ? layers : 1;
    for (int group = 1; group <= groups; ++group) {
      evaluator_.set_recompute_layers(group);
      for (int zero = 0; zero <= (job.data > 1 ? 3 : 0); ++zero) {
        for (const bool half_gradients : {false, true}) keep(evaluator_.evaluate(zero, half_gradients));
      }
    }
  }

  /// What else a candidate varies (ZeRO stage, gradients, layers of a recomputation) is always possible.
  bool legal(const Job& job, std::uint8_t schedule) {
    if (!config_) return true;
    set_job(job, search_schedules()[schedule], *config_);
    const std::optional<std::string> reason = why_invalid(*config_);
    if (reason) refused = *reason;
    return !reason;
  }

  void keep(const Candidate& candidate) {
    ++configurations;
    front.offer(candidate);
    if (candidate.peak_bytes > request_.memory_budget) return;
    ++fitting;
    const auto limit = static_cast<std::size_t>(request_.top);
    if (best.size() == limit && !better(candidate, best.back())) return;
    best.insert(std::upper_bound(best.begin(), best.end(), candidate, better), candidate);
    if (best.size() > limit) best.pop_back();
  }

  const SearchRequest& request_;
  const Software& software_;
  Evaluator evaluator_;
  std::optional<RunConfig> config_;  // becomes each candidate's in turn
};

std::vector<Region> regions_of(const SearchRequest& request) {
  std::vector<Region> regions;
  for (const int tensor : divisors(request.accelerators)) {
    if (std::fmod(request.model.heads, tensor) != 0 || std::fmod(request.model.ffn, tensor) != 0) continue;
    for (const int pipeline : divisors(request.accelerators / tensor)) {
      if (pipeline > request.model.layers || pipeline > 256) continue;
      const int data = request.accelerators / tensor / pipeline;
      if (request.global_batch % data != 0) continue;
      for (const int micro_batch : divisors(request.global_batch / data)) {
        regions.push_back({tensor, pipeline, data, micro_batch});
      }
    }
  }
  return regions;
}

}  // namespace

const std::vector<std::string>& search_schedules() {
  static const std::vector<std::string> kNames = {"1f1b", "gpipe",  "interleaved", "zb-h1",    "zb-h2",
                                                  "zb-v", "v-half", "v-min",       "dualpipe", "dualpipev"};
  return kNames;
}

const ScheduleTraits& search_traits(std::size_t schedule) {
  static const std::vector<ScheduleTraits> kTraits = [] {
    std::vector<ScheduleTraits> list;
    for (const std::string& name : search_schedules()) list.push_back(*find_schedule_traits(name));
    return list;
  }();
  return kTraits[schedule];
}

Model model_of(const ModelConfig& config) {
  Model model;
  model.layers = static_cast<double>(config.layers);
  model.hidden = static_cast<double>(config.hidden);
  model.heads = static_cast<double>(config.heads);
  model.kv_heads = static_cast<double>(config.kv_heads);
  model.head = static_cast<double>(config.head_dim);
  model.ffn = static_cast<double>(config.ffn);
  model.vocab = static_cast<double>(config.vocab);
  model.gated = config.activation == Activation::swiglu;
  model.tied = config.tied_embeddings;
  if (config.sliding_window > 0) {
    const auto full =
        static_cast<double>(std::count(config.full_attention.begin(), config.full_attention.end(), true));
    model.window = static_cast<double>(config.sliding_window);
    model.windowed = 1 - full / model.layers;
  }
  model.positions = config.positions == Positions::learned ? static_cast<double>(config.max_positions) : 0;
  return model;
}

SearchResult search(const SearchRequest& request, const Machine& machine, const Software& software,
                    PipelinePlans& plans, const std::function<void(int, int)>& progress) {
  const std::vector<Region> regions = regions_of(request);
  if (regions.empty()) {
    throw InputError(
        fmt::format("search: no layout of {} accelerators fits global_batch_size {}, {} heads and {} layers; "
                    "expected a number of "
                    "accelerators that is a product of a divisor of the heads, at most {} stages and a "
                    "divisor of the batch; "
                    "change --gpus or --gbs",
                    request.accelerators, request.global_batch, request.model.heads, request.model.layers,
                    request.model.layers));
  }
  const int all = static_cast<int>(regions.size());
  std::atomic<int> next{0};
  std::vector<Worker> workers;
  for (int i = 0; i < std::max(1, request.threads); ++i)
    workers.emplace_back(request, machine, software, plans);
  std::vector<std::exception_ptr> failures(workers.size());
  const auto run = [&](std::size_t worker) {
    try {
      for (int i = next++; i < all; i = next++) {
        workers[worker].work(regions[static_cast<std::size_t>(i)]);
        if (worker == 0 && progress) progress(std::min(next.load(), all), all);
      }
    } catch (...) {
      failures[worker] = std::current_exception();
      next = all;
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < workers.size(); ++i) threads.emplace_back(run, i);
  run(0);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  SearchResult result;
  Front front;
  for (const Worker& worker : workers) {
    result.best.insert(result.best.end(), worker.best.begin(), worker.best.end());
    for (const Candidate& candidate : worker.front.list()) front.offer(candidate);
    result.configurations += worker.configurations;
    result.fitting += worker.fitting;
    result.simulated += worker.simulated();
    if (result.refused.empty()) result.refused = worker.refused;
  }
  std::sort(result.best.begin(), result.best.end(), better);
  if (result.best.size() > static_cast<std::size_t>(request.top)) {
    result.best.resize(static_cast<std::size_t>(request.top));
  }
  result.front = front.list();
  return result;
}

}  // namespace plumbline::cluster
