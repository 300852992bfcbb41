#include "analysis/serving/generation_pricing.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/serving/kv_cache.hpp"
#include "analysis/serving/serving_time.hpp"
#include "analysis/step/parameters.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/time/operator_time.hpp"
#include "analysis/work/generation_list.hpp"
#include "core/config/generation_config.hpp"

namespace plumbline {
namespace {

/// Parameters that a pass of few tokens reads: of a looked-up embedding single rows, which do not count,
/// and experts that have tokens, as many as there are rows or, `expected`, as random choices reach.
Bytes read_parameters(const StageShape& shape, bool expected) {
  const StageParameters all = parameters_of(shape);
  std::int64_t read = all.layers + all.final_norm;
  if (shape.place.last) read += all.output > 0 ? all.output : all.embedding;
  const auto idle = [&](const StageShape& like) -> std::int64_t {
    if (!like.mixture()) return 0;
    const double used = expected ? reached_experts(like) : static_cast<double>(like.mlp_rows());
    const double experts = std::max(0.0, static_cast<double>(like.local_experts()) - used);
    return std::lround(experts * static_cast<double>(like.stream.hidden * (like.mlp.fc1 + like.mlp.ffn)));
  };
  return {(read - shape.over_layers(idle)) * shape.numerics.e()};
}

/// Tensor and data-parallel ranks compute at the same time; pipeline ranks in turn.
Load load_of(const RunConfig& config, const HardwareProfile& hardware, Bytes touched) {
  Load load;
  load.layout = config.layout();
  load.operands.apart = touched;
  const int processors = hardware.processors();
  if (processors == 0) return load;
  const int together = load.layout.tensor * load.layout.data;
  load.busy = processors > 1 ? std::min(1.0, (together - 1.0) / (processors - 1)) : 0;
  load.sharing = std::max(1.0, static_cast<double>(together) / processors);
  return load;
}

}  // namespace

RunConfig generation_pass(const RunConfig& config, std::int64_t seq) {
  RunConfig pass = config;
  pass.generation.task = RunTask::train;
  pass.machine.software = "plumbline";  // the layers of engines are its
  pass.batch.seq_length = seq;
  pass.batch.global_batch_size = pass.batch.micro_batch_size * pass.parallel.data();
  pass.parallel.sequence_parallel = false;
  pass.parallel.tp.comm_overlap = false;
  pass.parallel.ep.overlap_comm = pass.parallel.ep.shared_expert_overlap = false;
  pass.parallel.dp.zero_stage = 0;
  pass.parallel.pp.virtual_chunks = 1;
  pass.recompute = {};
  pass.offload = {};
  pass.numerics.hidden_dropout = pass.numerics.attention_dropout = 0;
  pass.numerics.cross_entropy_loss_fusion = true;
  pass.numerics.attention_backend = AttentionBackend::fused;
  return pass;
}

std::vector<StageShape> generation_shapes(const RunConfig& config, std::int64_t seq) {
  const int stages = config.parallel.pipeline;
  std::vector<StageShape> shapes = stage_shapes(generation_pass(config, seq), stages);
  const std::vector<StageShape> whole =
      stage_shapes(generation_pass(config, config.batch.seq_length), stages);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    shapes[i].kinds = whole[i].kinds;
    if (is_inference_engine(config.machine.software))
      shapes[i].numerics.sums_in_fp32 = false;  // over TP ranks
  }
  return shapes;
}

Seconds GenerationPricing::stage_seconds(const StageShape& shape, std::int64_t past,
                                         CostLines& explained) const {
  const Load load = load_of(config_, hardware_, touched_[static_cast<std::size_t>(shape.place.stage)]);
  const bool engine = is_inference_engine(config_.machine.software);
  Seconds sum;
  double kernels = 0;
  for (const OperatorCall& call : generation_calls(shape, past, engine_.batched_attention)) {
    const Seconds time =
        (engine ? serving_time(call, hardware_, load) : time_of(call, hardware_, load)) * load.sharing;
    explained.add(call, time);
    sum += time;
    if (time.value > 0) kernels += static_cast<double>(call.count);
  }
  const Seconds host = hardware_.action_overhead + host_seconds(past > 0, kernels, sum);
  explained.add("host", 1, host);
  return sum + host;
}

Seconds GenerationPricing::host_seconds(bool decoding, double kernels, Seconds device) const {
  if (hardware_.accelerator() == nullptr) return {};
  const EngineHost& host = engine_.host;
  const HostRates& rates = hardware_.accelerator()->constants.device.host;
  const double python = rates.python_slowdown > 0 ? rates.python_slowdown : rates.slowdown;
  const auto sequences = static_cast<double>(config_.batch.micro_batch_size);
  const Seconds behind{python * (host.step_s + sequences * host.sequence_s)};
  if (decoding) return behind;
  return behind + std::max(Seconds{}, Seconds{rates.slowdown * kernels * host.launch_s} - device);
}

Seconds GenerationPricing::pass(const std::vector<StageShape>& shapes, std::int64_t past,
                                const std::string& phase, std::vector<CostLine>* lines) const {
  Seconds sum;
  for (const StageShape& shape : shapes) {
    std::vector<CostLine> own;
    CostLines explained(own, shape.place.stage, phase);
    sum += stage_seconds(shape, past, explained);
    if (shapes.size() > 1) {
      const Seconds hop = message_after(shape);
      explained.add(shape.place.last ? "token to the first stage" : "pipeline message", 1, hop);
      sum += hop;
    }
    if (lines != nullptr) lines->insert(lines->end(), own.begin(), own.end());
  }
  return sum;
}

Seconds GenerationPricing::bound(const std::vector<StageShape>& shapes, std::int64_t length) const {
  if (hardware_.memory_bandwidth.value <= 0) return {};
  Seconds sum;
  for (const StageShape& shape : shapes) {
    const bool engine = is_inference_engine(config_.machine.software);
    const Bytes cache = kv_cache_bytes(shape, config_.batch.micro_batch_size, length, engine);
    sum += (read_parameters(shape, engine) + cache) / hardware_.memory_bandwidth;
  }
  return sum;
}

/// A stage's output to the next stage, or the last stage's new tokens to the first.
Seconds GenerationPricing::message_after(const StageShape& shape) const {
  const Layout layout = config_.layout();
  const Bytes bytes = shape.place.last ? Bytes{4 * shape.stream.batch}
                                       : Bytes{shape.stream.rows * shape.stream.hidden * shape.numerics.e()};
  const int here = pipeline_ranks_per_node(hardware_, layout);
  const bool leaves = here > 0 && (shape.place.last || (shape.place.stage + 1) % here == 0);
  return message_time(hardware_, layout.world(), bytes, leaves);
}

}  // namespace plumbline
