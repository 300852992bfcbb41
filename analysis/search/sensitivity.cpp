#include "analysis/search/sensitivity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "analysis/search/job_config.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline::cluster {
namespace {

struct Constant {
  const char* name;
  double Device::*device;
  double Network::*network;
};

constexpr std::array<Constant, 17> kSensitivities = {{
    {"peak_16bit", &Device::peak_16bit, nullptr},
    {"bandwidth", &Device::bandwidth, nullptr},
    {"wave_share", &Device::wave_share, nullptr},
    {"tile_s", &Device::tile_s, nullptr},
    {"cache_bandwidth", &Device::cache_bandwidth, nullptr},
    {"stream_share", &Device::stream_share, nullptr},
    {"gemm_share", &Device::gemm_share, nullptr},
    {"kernel_s", &Device::kernel_s, nullptr},
    {"flash_forward", &Device::flash_forward, nullptr},
    {"flash_backward", &Device::flash_backward, nullptr},
    {"node_bandwidth", nullptr, &Network::node_bandwidth},
    {"message_bandwidth", nullptr, &Network::message_bandwidth},
    {"node_base_s", nullptr, &Network::node_base_s},
    {"node_step_s", nullptr, &Network::node_step_s},
    {"nic_bandwidth", nullptr, &Network::nic_bandwidth},
    {"nic_base_s", nullptr, &Network::nic_base_s},
    {"nic_step_s", nullptr, &Network::nic_step_s},
}};

std::optional<Candidate> evaluated(const Job& job, std::uint8_t schedule, const Machine& machine,
                                   const Software& software, PipelinePlans& plans) {
  Evaluator evaluator(machine, software, plans);
  evaluator.set_job(job);
  if (!evaluator.set_schedule(schedule)) return std::nullopt;
  evaluator.set_recompute_layers(job.recompute_layers);
  return evaluator.evaluate(job.zero, job.half_gradients);
}

/// One change of the configuration that keeps the accelerators and the batch.
struct Variant {
  std::string what;
  Job job;
  std::uint8_t schedule;
};

class Variants {
 public:
  Variants(const Job& job, std::uint8_t schedule) : job_(job), schedule_(schedule) {
    batch_ = job.data * job.micro_batch * job.microbatches;
    layouts();
    sizes();
    switches();
    schedules();
  }
  std::vector<Variant> list;

 private:
  void add(const std::string& what, Job job) { add(what, job, schedule_); }
  void add(const std::string& what, Job job, std::uint8_t schedule) {
    const int per_step = job.data * job.micro_batch;
    if (per_step < 1 || batch_ % per_step != 0) return;
    job.microbatches = batch_ / per_step;
    if (std::fmod(job.model.heads, job.tensor) != 0 || std::fmod(job.model.ffn, job.tensor) != 0) return;
    if (job.pipeline * job.chunks > job.model.layers) return;
    if (job.pipeline == 1 && (job.chunks > 1 || job.vocabulary != VocabPasses::none)) return;
    list.push_back({what, job, schedule});
  }

  /// Ranks moved from one kind of parallelism to another, two at a time.
  void layouts() {
    const std::array<std::pair<const char*, int Job::*>, 3> kinds = {
        {{"tensor", &Job::tensor}, {"pipeline", &Job::pipeline}, {"data", &Job::data}}};
    for (const auto& [from, less] : kinds) {
      for (const auto& [to, more] : kinds) {
        if (less == more || job_.*less % 2 != 0) continue;
        Job job = job_;
        job.*less /= 2;
        job.*more *= 2;
        if (job.tensor == 1) job.sequence_parallel = false;
        add(fmt::format("{} {} -> {}, {} {} -> {}", from, job_.*less, job.*less, to, job_.*more, job.*more),
            job);
      }
    }
  }

  void sizes() {
    for (const int micro_batch : {job_.micro_batch / 2, job_.micro_batch * 2}) {
      if (micro_batch < 1 || micro_batch == job_.micro_batch) continue;
      Job job = job_;
      job.micro_batch = micro_batch;
      add(fmt::format("micro_batch_size {} -> {}", job_.micro_batch, micro_batch), job);
    }
  }

  void switches() {
    Job job = job_;
    if (job.tensor > 1) {
      job.sequence_parallel = !job.sequence_parallel;
      add(fmt::format("sequence_parallel {}", job.sequence_parallel), job);
    }
    for (const Recomputation recomputation : {Recomputation::none, Recomputation::full}) {
      job = job_;
      if (job.recomputation == recomputation) continue;
      job.recomputation = recomputation;
      job.recompute_layers = 1;
      add(recomputation == Recomputation::none ? "recompute_granularity none" : "recompute_granularity full",
          job);
    }
    for (int zero = 0; zero <= 3; ++zero) {
      job = job_;
      if (job.data == 1 || zero == job.zero) continue;
      job.zero = zero;
      add(fmt::format("zero_stage {} -> {}", job_.zero, zero), job);
    }
    job = job_;
    job.half_gradients = !job.half_gradients;
    add(job.half_gradients ? "grad_dtype same" : "grad_dtype fp32", job);
  }

  /// The cluster model knows vocabulary passes where a rank holds one stage.
  static bool takes_passes(const ScheduleTraits& traits) {
    return traits.parts() == 1 && find_with_passes(traits.name, VocabPasses::two_barriers) != nullptr;
  }

  void schedules() {
    for (std::size_t i = 0; i < search_schedules().size(); ++i) {
      const std::string& name = search_schedules()[i];
      Job job = job_;
      const ScheduleTraits& traits = search_traits(i);
      job.chunks = traits.parts();
      if (job.pipeline == 1 || (i == schedule_ && job.chunks == job_.chunks)) continue;
      if (job.vocabulary != VocabPasses::none && !takes_passes(traits)) continue;
      if (traits.whole_groups && job.microbatches % job.pipeline != 0) continue;
      add("pipeline_schedule " + name, job, static_cast<std::uint8_t>(i));
    }
    if (!takes_passes(search_traits(schedule_))) return;
    for (const VocabPasses vocabulary :
         {VocabPasses::none, VocabPasses::two_barriers, VocabPasses::one_barrier}) {
      Job job = job_;
      if (job.vocabulary == vocabulary) continue;
      job.vocabulary = vocabulary;
      add(fmt::format("vocab_parallel {}", vocab_parallel_name(vocabulary)), job);
    }
    Job job = job_;
    job.balanced = !job.balanced;
    if (stage_layers(job) == stage_layers(job_)) return;
    add(job.balanced ? "layer_distribution balanced" : "layer_distribution even", job);
  }

  Job job_;
  std::uint8_t schedule_;
  int batch_ = 1;
};

}  // namespace

Job job_of(const RunConfig& config) {
  if (const auto reason = why_invalid(config)) throw InputError(*reason);
  if (config.distillation.teacher) {
    throw InputError(
        fmt::format("teacher: found {}; expected none, the cluster model knows no distillation; remove "
                    "the key or --what-limits",
                    printable(config.distillation.teacher->name)));
  }
  if (config.parallel.layer_distribution != "even" && config.parallel.layer_distribution != "balanced") {
    throw InputError(
        fmt::format("layer_distribution: found {}; expected even or balanced, the cluster model knows no "
                    "others; change the key or remove --what-limits",
                    printable(config.parallel.layer_distribution)));
  }
  Job job;
  job.model = model_of(config.model);
  job.model.vocab = static_cast<double>(config.padded_vocab());
  job.sequence = static_cast<double>(config.batch.seq_length);
  job.tensor = config.parallel.tensor;
  job.pipeline = config.parallel.pipeline;
  job.data = config.parallel.data();
  job.context = config.parallel.context;
  job.chunks = config.parallel.virtual_chunks;
  job.micro_batch = static_cast<int>(config.batch.micro_batch_size);
  job.microbatches = config.microbatches();
  job.sequence_parallel = config.parallel.effective_sequence_parallel();
  job.zero = config.parallel.effective_zero_stage();
  job.half_gradients = config.numerics.grad_dtype == GradDType::same;
  job.vocabulary = config.parallel.vocab_parallel;
  job.hidden_dropout = config.numerics.hidden_dropout > 0;
  job.attention_dropout = config.numerics.attention_dropout > 0;
  job.balanced = config.parallel.layer_distribution == "balanced";
  const ScheduleTraits traits = schedule_traits(config.parallel.schedule);
  if (traits.bidirectional()) job.chunks = traits.parts();
  job.recompute_layers = static_cast<double>(config.recompute.num_layers);
  if (config.recompute.granularity == Recompute::selective) job.recomputation = Recomputation::selective;
  if (config.recompute.granularity == Recompute::full) job.recomputation = Recomputation::full;
  return job;
}

std::uint8_t schedule_index(const std::string& name, int chunks) {
  const std::string_view chunked = schedule_traits(name).chunked;
  const std::string_view wanted = chunks > 1 && !chunked.empty() ? chunked : name;
  for (std::size_t i = 0; i < search_schedules().size(); ++i) {
    if (search_schedules()[i] == wanted) return static_cast<std::uint8_t>(i);
  }
  std::string names;
  for (const std::string& known : search_schedules()) names += (names.empty() ? "" : ", ") + known;
  throw InputError(fmt::format("pipeline_schedule: found {}, expected one of: {}", name, names));
}

Limits what_limits(const Job& job, std::uint8_t schedule, const Machine& machine, const Software& software,
                   PipelinePlans& plans, std::optional<RunConfig> config) {
  const std::optional<Candidate> now = evaluated(job, schedule, machine, software, plans);
  if (!now) {
    throw InputError(fmt::format("pipeline_schedule {}: not possible with {} stages and {} micro-batches",
                                 search_schedules()[schedule], job.pipeline * job.chunks, job.microbatches));
  }
  Limits limits;
  limits.now = *now;
  constexpr double kStep = 0.01;
  for (const Constant& constant : kSensitivities) {
    const auto value_in = [&](Machine& m) -> double& {
      return constant.device != nullptr ? m.device.*constant.device : m.network.*constant.network;
    };
    Machine changed = machine;
    const double value = value_in(changed);
    if (value <= 0) continue;
    std::array<double, 2> seconds{};
    for (const int side : {0, 1}) {
      value_in(changed) = value * (side == 0 ? 1 - kStep : 1 + kStep);
      const std::optional<Candidate> moved = evaluated(job, schedule, changed, software, plans);
      seconds[static_cast<std::size_t>(side)] = moved ? moved->step_s : now->step_s;
    }
    limits.hardware.push_back({constant.name, value, (seconds[1] - seconds[0]) / now->step_s / (2 * kStep)});
  }
  std::stable_sort(limits.hardware.begin(), limits.hardware.end(),
                   [](const Elasticity& a, const Elasticity& b) {
                     return std::abs(a.elasticity) > std::abs(b.elasticity);
                   });
  for (const Variant& variant : Variants(job, schedule).list) {
    if (config) {
      set_job(variant.job, search_schedules()[variant.schedule], *config);
      if (why_invalid(*config)) continue;
    }
    const std::optional<Candidate> c = evaluated(variant.job, variant.schedule, machine, software, plans);
    if (c) limits.changes.push_back({variant.what, c->step_s, c->peak_bytes});
  }
  std::stable_sort(limits.changes.begin(), limits.changes.end(),
                   [](const Change& a, const Change& b) { return a.step_s < b.step_s; });
  return limits;
}

}  // namespace plumbline::cluster
