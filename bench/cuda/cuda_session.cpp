// One rank on its GPU: NCCL's set-up, and the observers.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "bench/cuda/cuda_backend.hpp"
#include "bench/cuda/cuda_device.hpp"
#include "bench/cuda/cuda_host_lane.hpp"
#include "bench/cuda/cuda_rank.hpp"
#include "bench/cuda/cuda_trace.hpp"
#include "bench/cuda/device_memory_watch.hpp"
#include "bench/cuda/first_step.hpp"
#include "bench/cuda/nccl_log.hpp"
#include "bench/cuda/tensor_memory.hpp"
#include "bench/measure/machine/gpu_sampler.hpp"
#include "bench/training/trainer/host_values.hpp"
#include "bench/training/trainer/rehearsal.hpp"
#include "core/backends/nccl/channels.hpp"
#include "core/backends/nccl/device_variables.hpp"
#include "core/backends/nccl/nccl_communicator.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"
#include "core/config/context_ring.hpp"
#include "core/profile/device_timeline.hpp"
#include "core/profile/nvtx_actions.hpp"
#include "kernels/cuda/cuda_operators.hpp"

namespace plumbline {
namespace {

/// "first": matrix products take cuBLASLt's first choice, and with deterministic_mode a run gives the same
/// bits as the one before; otherwise the fastest one here.
constexpr const char* kGemmVariable = "PLUMBLINE_GEMM_CHOICE";

GemmChoice gemm_choice() {
  const char* text = std::getenv(kGemmVariable);
  if (text == nullptr || std::string_view(text) == "timed") return GemmChoice::timed;
  if (std::string_view(text) == "first") return GemmChoice::first;
  throw InputError(fmt::format("{}: found \"{}\", expected first or timed", kGemmVariable, text));
}

/// Tells the watchdog which action its operations belong to, and how far the device is.
class ActionNote final : public StepObserver {
 public:
  explicit ActionNote(NcclCommunicator& communicator) : communicator_(communicator) {}
  void action_begins(const Action& action, Bytes /*message*/) override {
    communicator_.watchdog().begin_action(action);
    communicator_.count_tensor_time(is_compute(action.type));
  }
  void action_goes_on(const Action& action) override { communicator_.watchdog().begin_action(action); }
  void action_ends(const Action& /*action*/) override {
    communicator_.action_asked_for();
    communicator_.watchdog().end_action();
  }

 private:
  NcclCommunicator& communicator_;
};

SideStream side_stream_of(Operators& operators) {
  return {static_cast<cudaStream_t>(cuda_side_stream(operators)),
          [&operators](const std::function<void()>& work) { run_on_side_stream(operators, work); }};
}

DeviceMemoryReport device_report(const DeviceMemoryWatch& watch, const training::TrainingResult& result,
                                 MpiCommunicator& control) {
  const auto readings = training::from_every_rank(control, watch.readings());
  std::vector<Bytes> allocated;
  for (const training::MeasuredMemory& rank : result.memory) allocated.push_back(rank.at_peak.total());
  return {"measured with " + watch.source(), watch.readings().device, account_device(readings, allocated)};
}

/// Those of all ranks: rank 0 may have no message to another host.
std::vector<std::string> transports_of_all(const NcclLog& log, MpiCommunicator& control) {
  std::array<char, 256> text{};
  const std::string mine = fmt::format("{}", fmt::join(log.transports(), "\n"));
  mine.copy(text.data(), text.size() - 1);
  std::set<std::string> ways;
  for (const auto& of_rank : training::from_every_rank(control, text)) {
    std::istringstream lines(of_rank.data());
    for (std::string way; std::getline(lines, way);) ways.insert(way);
  }
  return {ways.begin(), ways.end()};
}

GpuReport gpu_report(Operators& operators, const TensorMemory& memory, std::vector<std::string> transports,
                     const GpuSampler& sampler) {
  GpuReport report;
  for (KernelChoice& choice : cuda_choices(operators)) {
    report.computed_by.push_back({std::move(choice.call), std::move(choice.by), std::move(choice.why)});
  }
  for (std::string& way : transports) {
    report.computed_by.push_back({"messages and collectives", std::move(way), ""});
  }
  if (auto registered = memory.report()) report.computed_by.push_back(std::move(*registered));
  report.state = sampler.state();
  return report;
}

}  // namespace

void become_cuda_program() {}

CudaRun train_on_cuda(const RunConfig& config, const Schedule& schedule, const PlannedStep& rehearsed,
                      const RunFiles& files, MpiCommunicator& control,
                      const training::StepProgress& progress) {
  const std::string queues = use_all_queues();
  if (control.rank() == 0) say(queues);
  const NcclLog log;
  std::optional<CudaTrace> trace;
  if (!files.trace.empty()) trace.emplace(control);
  const DevicePlace place(control.rank());
  DeviceMemoryWatch memory_watch(place);
  const auto operators =
      memory_watch.open({.gemm_choice = gemm_choice(), .deterministic = config.numerics.deterministic_mode});
  DeviceLanes noted;
  DeviceLanes* const lanes = files.trace.empty() && files.timelines.empty() ? nullptr : &noted;
  NcclOptions options;
  options.lanes = lanes;
  options.compute = static_cast<cudaStream_t>(cuda_stream(*operators));
  if (config.parallel.splits_vocabulary()) options.side = side_stream_of(*operators);
  options.channels = channels_of(schedule);
  options.context_ring = context_ring(config.parallel);
  options.smaller_rings = config.batch.dynamic_context_parallel;
  options.watchdog = watchdog_options();
  options.warnings = [&log] { return log.warnings(); };
  options.multiprocessors = cuda_multiprocessors(*operators);
  std::optional<NcclCommunicator> made;
  memory_watch.connect([&] { made.emplace(config.layout(), control, options); });
  NcclCommunicator& communicator = *made;
  // Kernels that wait for other ranks hold the rest of the card; a product that counts on all of it would
  // wait for them.
  const int for_products = communicator.multiprocessors_for_computation();
  count_on_multiprocessors(*operators, for_products < options.multiprocessors ? for_products : 0);

  const int pipeline_rank = config.layout().coordinates(control.rank()).pipeline;
  NvtxActions ranges(schedule, pipeline_rank);
  ActionNote note(communicator);
  DeviceTimeline timeline(
      options.compute, [&] { return communicator.now(); }, [&] { return communicator.take_tensor_time(); },
      lanes);
  GpuSampler sampler(memory_watch.nvml());
  FirstStep first_step(communicator, *operators, sampler, config.measure.warmup_steps);
  StepObservers observers;
  observers.add(&memory_watch);  // outermost: reads when the others are done
  observers.add(&first_step);
  observers.add(&note);
  if (trace) observers.add(&*trace);
  observers.add(&ranges);
  observers.add(&timeline);  // innermost: its times are in the events before the trace keeps them
  std::unique_ptr<HostLane> host;
  if (config.offload.on()) host = cuda_host_lane(options.compute, lanes);
  StepObservers rehearsing;
  rehearsing.add(&note);
  rehearsing.add(&timeline);  // forgets what it has noted when the step ends
  communicator.rehearse(true);
  training::rehearse(rehearsed.config, rehearsed.schedule, *operators, communicator, control,
                     device_memory(*operators), &rehearsing, host.get());
  communicator.rehearse(false);
  TensorMemory memory(*operators, communicator, config.machine.nccl_ub);
  memory_watch.tensors([&] { return memory.use(); });
  CudaRun run;
  run.training = training::train(config, schedule, *operators, communicator, control, memory.take(), progress,
                                 &observers, files.checkpoints, {}, host.get());
  run.device_memory = device_report(memory_watch, run.training, control);
  run.gpu = gpu_report(*operators, memory, transports_of_all(log, control), sampler);
  run.bus = bus_of(place.device());
  if (trace) run.unsaved = trace->write(schedule, files.trace + ".kernels.json", timeline.error());
  return run;
}

}  // namespace plumbline
