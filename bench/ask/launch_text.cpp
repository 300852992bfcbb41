#include "bench/ask/launch_text.hpp"

#include "analysis/hardware/hardware.hpp"
#include "analysis/step/common_shape.hpp"
#include "analysis/step/software_of.hpp"
#include "core/launch_files/launch_export.hpp"

namespace plumbline {
namespace {

int gpus_per_host(const std::string& hardware) {
  if (hardware.empty()) return kUsualHostGpus;
  const HardwareProfile profile = load_hardware(hardware);
  if (profile.accelerator() == nullptr) return kUsualHostGpus;
  const Network& network = profile.accelerator()->constants.network;
  return network.gpus_per_host > 0 ? network.gpus_per_host : network.gpus_per_node;
}

/// The choices that the predicted software makes where the configuration has none: another software would
/// make others. A mixture or hybrid that the software does not have is exported without.
RunConfig with_choices(RunConfig config) {
  const Software& software = software_of(config);
  if (why_model_unlisted(config, software)) return config;
  const StageShape shape = common_shape(config, software);
  ParallelConfig& parallel = config.parallel;
  parallel.dp.overlap_grad_reduce = shape.overlap.grad_reduce;
  parallel.dp.overlap_param_gather = shape.overlap.param_gather;
  if (config.model.mixture && parallel.ep.token_dispatcher == TokenDispatcher::automatic)
    parallel.ep.token_dispatcher = shape.expert.dispatcher;
  if (software.communication.sharded) parallel.dp.zero_stage = shape.sharding.zero == 2 ? 2 : 3;
  const bool bf16 = config.numerics.precision == DType::bf16;
  if (!software.own_step && software.memory.gradient_bytes_in(bf16) <= 2)
    config.numerics.grad_dtype = GradDType::same;
  return config;
}

}  // namespace

std::string launch_text(const RunConfig& config, const std::string& framework) {
  return export_launch(with_choices(config), framework, gpus_per_host(config.machine.hardware));
}

}  // namespace plumbline
