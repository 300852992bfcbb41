// Memory and time of one configuration of a search.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "analysis/cluster/memory.hpp"
#include "analysis/search/search.hpp"

namespace plumbline::cluster {
namespace {

/// Parameters of the fullest pipeline rank on one tensor rank.
struct RankParameters {
  double first = 0;
  double middle = 0;
  double last = 0;
  double largest() const { return std::max({first, middle, last}); }
};

/// Layers on a rank that holds `held`.
double layers_of(const StageLayers& layers, const PipelinePlan::Held& held) {
  return held.chunks * layers.middle + (held.first ? layers.first - layers.middle : 0) +
         (held.last ? layers.last - layers.middle : 0);
}

/// Ranks hold as many stages as `held` says.
RankParameters rank_parameters_of(const Job& job, const StageLayers& layers, const PipelinePlan::Held& held) {
  const double table = job.model.vocab * job.model.hidden / job.tensor;
  const double layer = job.model.layer_parameters() / job.tensor;
  const double body = layers.middle * held.chunks * layer;
  RankParameters p{body + (layers.first - layers.middle) * layer, body,
                   body + (layers.last - layers.middle) * layer};
  if (job.vocabulary != VocabPasses::none) {
    const double share = 2 * table / job.pipeline;
    return {p.first + share, p.middle + share, p.last + share};
  }
  p.first += table + job.model.positions * job.model.hidden / job.tensor;
  p.last += table;
  if (job.pipeline == 1) p.first = p.middle = p.last = body + table * (job.model.tied ? 1 : 2);
  return p;
}

}  // namespace

StageLayers stage_layers(const Job& job) {
  const double stages = job.pipeline * job.chunks;
  const double layers = job.model.layers;
  const double even_last = std::floor(layers / stages);
  const StageLayers even{std::ceil(layers / stages), std::ceil(layers / stages), even_last};
  if (!job.balanced || stages < 2 || job.vocabulary != VocabPasses::none) return even;
  const Model& model = job.model;
  const double q = model.heads * model.head;
  const double output =
      2 * model.hidden * model.vocab / (2 * model.layer_parameters() + 2 * q * job.sequence);
  const auto longest = [&](int on_last) {
    return std::max(std::ceil((layers - on_last) / (stages - 1)), on_last + output);
  };
  auto last = static_cast<int>(even_last);
  for (int fewer = last - 1; fewer >= 0; --fewer) {
    if (longest(fewer) < longest(last)) last = fewer;
  }
  // Later stages take what is left over: the first holds the embedding.
  const double others = (layers - last) / (stages - 1);
  return {std::floor(others), std::ceil(others), static_cast<double>(last)};
}

void Evaluator::set_job(const Job& job) {
  job_ = job;
  costs_ = job_costs(machine_, software_, job);
  layers_ = stage_layers(job);
  layers_per_stage_ = std::max({layers_.first, layers_.middle, layers_.last});
  const bool one = job.pipeline * job.chunks == 1;
  stages_.first = stage_cost(costs_, layers_.first, true, one);
  stages_.middle = stage_cost(costs_, layers_.middle, false, false);
  stages_.last = stage_cost(costs_, layers_.last, one, true);
  stages_.message = costs_.message;
  Job kept = job;
  kept.recomputation = Recomputation::none;
  whole_bytes_ = layer_activation_bytes(software_, kept);
  activation_bytes_ = layer_activation_bytes(software_, job);
  const auto work = [](const StageCosts& stage) {
    return (stage.forward + stage.backward + stage.vocab_forward + stage.vocab_backward +
            stage.input_forward + stage.input_backward)
        .value;
  };
  work_ = std::max({work(stages_.first), work(stages_.middle), work(stages_.last)}) +
          (job.chunks - 1) * work(stages_.middle);
  entry_ = nullptr;
}

void Evaluator::set_recompute_layers(double layers) {
  job_.recompute_layers = layers;
  // Groups that do not divide a stage leave one smaller group.
  if (job_.recomputation == Recomputation::full) {
    activation_bytes_ = layer_activation_bytes(software_, job_) * layers *
                        std::ceil(layers_per_stage_ / layers) / layers_per_stage_;
  }
}

InterleavedCosts Evaluator::interleaved_costs() const {
  return {stages_.first.forward.value,
          stages_.first.backward.value,
          stages_.middle.forward.value,
          stages_.middle.backward.value,
          stages_.last.forward.value,
          stages_.last.backward.value,
          stages_.message};
}

bool Evaluator::set_schedule(std::uint8_t schedule) {
  schedule_ = schedule;
  ScheduleNeed need;
  const ScheduleTraits& traits = search_traits(schedule);
  need.name = traits.name;
  need.pipeline = job_.pipeline;
  need.microbatches = job_.microbatches;
  need.chunks = traits.bidirectional() ? traits.chunks() : job_.chunks;
  need.vocabulary = job_.vocabulary;
  entry_ = &plans_.find(need, stages_.message > 0);
  if (!entry_->refused.empty()) return false;
  const bool split = job_.vocabulary != VocabPasses::none;
  const std::optional<double> exact =
      split ? std::nullopt : exact_pipeline_seconds(need.name, job_.pipeline, job_.microbatches, stages_);
  if (exact) {
    pipeline_s_ = *exact;
    return true;
  }
  ++simulated_;
  if (traits.any_chunks() && job_.microbatches % job_.pipeline == 0) {
    pipeline_s_ = interleaved_.seconds({job_.pipeline, job_.microbatches, job_.chunks}, interleaved_costs());
  } else {
    pipeline_s_ = pipeline_seconds(*entry_, job_.microbatches, stages_, scratch_, times_);
  }
  return true;
}

double Evaluator::memory(const Job& job) const {
  const double tokens = job.sequence * job.micro_batch / job.context;
  const double t = job.tensor;
  const double sp_size = job.sequence_parallel ? t : 1;
  const double unit = 2 * tokens * job.model.hidden;
  const bool split = job.vocabulary != VocabPasses::none;
  const double vocab = job.model.vocab / t / (split ? job.pipeline : 1);
  // What weight gradients wait for: about 32 of the bytes per token and hidden unit (memory.cpp).
  const double held_share =
      std::min(1.0, 32 * tokens * job.model.hidden / t / std::max(activation_bytes_, 1.0));
  double again = 0;
  if (job.recomputation != Recomputation::none) {
    const double layers = job.recomputation == Recomputation::full ? job.recompute_layers : 1;
    again = std::max(0.0, whole_bytes_ * layers - activation_bytes_);
  }
  double transient = 4 * tokens * job.model.ffn / t + 2 * unit / sp_size + again;
  if (job.zero == 3)
    transient += 12 * job.model.layer_parameters() / t;  // two layers, gathered, and a gradient
  double peak = 0;
  for (const PipelinePlan::Held& held : entry_->memory_plan().held()) {
    const RankParameters parameters = rank_parameters_of(job, layers_, held);
    const double mine = held.first && held.last ? parameters.first + parameters.last - parameters.middle
                        : held.first            ? parameters.first
                        : held.last             ? parameters.last
                                                : parameters.middle;
    const double own = job.pipeline == 1 ? parameters.first : mine;
    const double chunks = held.freed + held_share * (held.kept - held.freed);
    const double per_chunk = job.pipeline == 1 ? layers_.first : layers_of(layers_, held) / held.chunks;
    double bytes = state_bytes(software_, job, own) + chunks * per_chunk * activation_bytes_;
    double moment = transient;
    if (split) {
      bytes += 8 * tokens * vocab + 5 * unit;
    } else if (held.last) {
      moment = std::max(moment, (job.model.gated ? 16 : 12) * tokens * vocab + 2 * unit);
    }
    peak = std::max(peak, bytes + moment);
  }
  return peak;
}

/// Gradient reduction and, with ZeRO, parameter gathering. Without ZeRO-2 and -3 it overlaps, once per step,
/// with the last micro-batch's backward; with them, every micro-batch, with that micro-batch.
void Evaluator::data_parallel(const Job& job, Candidate& candidate) const {
  const int replicas = job.data * job.context;
  const PipelinePlan::Held& held = entry_->memory_plan().held().front();
  const double parameters = rank_parameters_of(job, layers_, held).largest();
  const double bandwidth = machine_.device.bandwidth * machine_.device.stream_share;
  candidate.parts.optimizer =
      parameters * software_.optimizer_bytes / (job.zero > 0 ? replicas : 1) / bandwidth + software_.step_s;
  const double gradients = parameters * (job.half_gradients ? 2 : software_.gradient_bytes);
  if (search_traits(schedule_).bidirectional()) {
    // The two copies of a stage add their gradients, from one end of the pipeline to the other.
    const Span mirror{2, job.tensor * replicas * (job.pipeline - 1)};
    candidate.parts.data += all_reduce_seconds(machine_.network, mirror, gradients);
  }
  if (replicas == 1) return;
  const Span group{replicas, job.tensor};
  const double work = job_.chunks * stages_.middle.backward.value;
  const double reduce = scatter_seconds(machine_.network, group, gradients);
  const double gather = scatter_seconds(machine_.network, group, 2 * parameters);
  const double hidden = software_.overlapped_reduction ? work : 0;
  const double m = job.microbatches;
  double exposed = 0;
  if (job.zero == 0) {
    exposed = std::max(0.0, all_reduce_seconds(machine_.network, group, gradients) - hidden);
  } else if (job.zero == 1) {
    exposed = std::max(0.0, reduce - hidden) + gather;
  } else if (job.zero == 2) {
    exposed = m * std::max(0.0, reduce - hidden) + gather;
  } else {
    const double forward = job_.chunks * stages_.middle.forward.value;
    exposed = m * (std::max(0.0, gather - forward) + std::max(0.0, gather + reduce - work));
  }
  candidate.parts.data += exposed;
}

Candidate Evaluator::evaluate(int zero, bool half_gradients) const {
  Candidate candidate;
  candidate.job = job_;
  candidate.job.zero = zero;
  candidate.job.half_gradients = half_gradients;
  candidate.schedule = schedule_;
  candidate.peak_bytes = memory(candidate.job);
  data_parallel(candidate.job, candidate);
  const double layers = layers_per_stage_ * job_.chunks * job_.microbatches;
  const double tensor = layers * (costs_.layer.forward.tensor + costs_.layer.recompute.tensor +
                                  costs_.layer.backward_input.tensor);
  const double busy = std::min(pipeline_s_, job_.microbatches * work_);
  candidate.parts.tensor = std::min(tensor, busy);
  candidate.parts.compute = busy - candidate.parts.tensor;
  candidate.parts.pipeline = pipeline_s_ - busy;
  if (job_.model.tied && job_.pipeline > 1 && job_.vocabulary == VocabPasses::none) {
    const Span ends{2, job_.tensor * job_.data * job_.context * (job_.pipeline - 1)};
    candidate.parts.data +=
        all_reduce_seconds(machine_.network, ends,
                           job_.model.vocab * job_.model.hidden / job_.tensor * software_.gradient_bytes);
  }
  candidate.step_s = candidate.parts.sum();
  return candidate;
}

}  // namespace plumbline::cluster
