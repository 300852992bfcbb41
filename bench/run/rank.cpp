// One rank of `plumbline run`.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "bench/cuda/cuda_backend.hpp"
#include "bench/evaluate/emulation.hpp"
#include "bench/evaluate/evaluation.hpp"
#include "bench/evaluate/host_memory_check.hpp"
#include "bench/evaluate/record_parts.hpp"
#include "bench/measure/machine/recorded_variables.hpp"
#include "bench/measure/machine/version.hpp"
#include "bench/plan/plan.hpp"
#include "bench/plan/rehearsed_step.hpp"
#include "bench/processes/hosts/placement.hpp"
#include "bench/processes/hosts/variables.hpp"
#include "bench/processes/launch/rank_binding.hpp"
#include "bench/run/cell_timelines.hpp"
#include "bench/run/probed_run.hpp"
#include "bench/show/report/trace_output.hpp"
#include "bench/training/checkpoints/checkpoint_start.hpp"
#include "bench/training/checkpoints/step_folder.hpp"
#include "bench/training/trainer/host_values.hpp"
#include "bench/training/trainer/slowed_operators.hpp"
#include "core/backends/mpi/agreement.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/backends/mpi/session.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/base/output_folder.hpp"
#include "core/base/output_json.hpp"
#include "core/base/standard_streams.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_listing.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "kernels/emulated/emulated_operators.hpp"

namespace plumbline {
namespace {

/// `unsaved`: files to be stored beside it that could not be; the measurement is kept.
void write_measurement(const MeasurementReport& measurement, const std::optional<ProbedReport>& probed,
                       const std::string& unsaved) {
  OrderedJson fragment;
  fragment["measurement"] = to_json(measurement);
  if (probed) fragment["probed"] = to_json(*probed);
  const char* path = std::getenv(kRecordOutVariable);
  if (path == nullptr) {
    fmt::print("{}\n", output_json(fragment, 2));
    if (!unsaved.empty()) throw Error(unsaved);
    return;
  }
  if (!unsaved.empty()) fragment[kUnsavedKey] = unsaved;
  const std::filesystem::path place = std::filesystem::absolute(path);
  OutputFolder::made(place.parent_path().string())
      .write(place.filename().string(), output_json(fragment, -1) + '\n');
}

training::TrainingResult train_on_cpu(const RunConfig& config, const Schedule& schedule,
                                      MpiCommunicator& communicator, const training::StepProgress& progress,
                                      const training::CheckpointOptions& checkpoints) {
  const auto operators = make_cpu_operators();
  const double slowdown = config.measure.slowdown_of(communicator.rank());
  training::SlowedOperators slowed(*operators, slowdown);
  Operators& used = slowdown > 1 ? slowed : *operators;
  return training::train(config, schedule, used, communicator, communicator, host_memory(), progress, nullptr,
                         checkpoints);
}

training::TrainingResult train_emulated(const RunConfig& config, const Schedule& schedule,
                                        const HardwareProfile& hardware, MpiCommunicator& control,
                                        const training::StepProgress& progress, bool with_lanes) {
  const MachineConfig& machine = config.machine;
  EmulatedClock clock = machine.emulated_clock == EmulatedTime::virtual_time
                            ? EmulatedClock::of_virtual_time()
                            : EmulatedClock(machine.emulated_time_factor, control.clock_offset());
  LaneNotes noted;
  LaneNotes* const notes = with_lanes ? &noted : nullptr;
  EmulatedCommunicator communicator(config.layout(), clock, emulated_links(hardware, config.layout()), notes);
  const auto operators = make_emulated_operators(
      clock, emulated_call_time(config, hardware, config.measure.slowdown_of(control.rank())));
  const auto host = emulated_host_lane(clock, emulated_host_copies(hardware), notes);
  return training::train(
      on_emulated_device(config, schedule, hardware, control.rank()), schedule, *operators, communicator,
      control, untouched_memory(), progress, notes, {}, [&clock] { return clock.worked(); }, host.get());
}

void write_files(const RunFiles& files, const RunConfig& config, const Schedule& schedule,
                 const HardwareProfile& hardware, const training::TrainingResult& result) {
  if (files.trace.empty() && files.timelines.empty()) return;
  CellTimelines timelines;
  timelines.predicted = predicted_timeline(config, schedule, predict(config, schedule, hardware), hardware);
  timelines.measured = measured_timeline(result);
  if (!files.trace.empty()) {
    const std::string trace = trace_file(
        files.trace, schedule,
        {{"predicted", timelines.predicted->trace, &timelines.predicted->memory, &timelines.predicted->lanes},
         {"measured", timelines.measured->trace, &timelines.measured->memory, &timelines.measured->lanes}});
    write_whole_file(files.trace, trace);
  }
  if (!files.timelines.empty()) write_timelines(files.timelines, std::move(timelines));
}

/// The same; returns why a file could not be written, nothing when all is well.
std::string try_to_write_files(const RunFiles& files, const RunConfig& config, const Schedule& schedule,
                               const HardwareProfile& hardware, const training::TrainingResult& result) {
  try {
    write_files(files, config, schedule, hardware, result);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// True for variables that ranks must agree on: NCCL's choices, not the places of a host's devices. No secret
/// gets into a message.
bool is_of_all_hosts(const std::string& name) {
  constexpr std::array<std::string_view, 6> kOfOneHost = {"CUDA_VISIBLE_DEVICES", "NCCL_DEBUG",
                                                          "NCCL_DEBUG_SUBSYS",    "NCCL_IB_HCA",
                                                          "NCCL_SOCKET_IFNAME",   "NCCL_TOPO_FILE"};
  if (std::find(kOfOneHost.begin(), kOfOneHost.end(), name) != kOfOneHost.end()) return false;
  return is_recorded_variable(name) || name.starts_with("PLUMBLINE_");
}

/// Facts that may differ on ranks of other hosts. Of two profiles one might have something to probe and the
/// other not.
RankFacts facts_of(const RunConfig& config, const HardwareProfile& hardware) {
  RankFacts facts = describe(config);
  facts.emplace_back("model's keys", to_config_json(config.model));
  facts.emplace_back("version of plumbline", plumbline_version());
  if (config.machine.backend == Backend::cuda) {
    for (const std::string& name : device_variables()) {
      if (is_of_all_hosts(name)) facts.emplace_back(name, process_variables()(name).value_or(""));
    }
    for (const auto& [library, version] : cuda_library_versions())
      facts.emplace_back("version of " + library, version);
  }
  facts.emplace_back("hardware profile (--hardware FILE gives all hosts the same)",
                     fmt::format("{} {:016x}", hardware.name, fnv1a(to_json(hardware))));
  return facts;
}

/// Without a launching process rank 0 does its work for all.
training::CheckpointOptions prepared_checkpoints(const RunConfig& config, training::CheckpointOptions options,
                                                 Communicator& control) {
  if (options.prepared) return options;
  training::check_checkpoint_options(options, config);
  if (options.folder.empty()) return options;
  std::int64_t step = 0;
  if (control.rank() == 0) {
    for (const std::string& remark : training::prepare_checkpoints(options, config))
      say(fmt::format("note: {}\n", remark));
    if (!options.resume.empty()) step = training::read_facts(options.resume).step;
  }
  step = training::from_first_rank(control, step);
  options.resume = step > 0 ? training::step_folder(options.folder, step) : "";
  return options;
}

/// Errors about missing or different files belong to a host: with several hosts it is named.
int naming_the_host(const std::function<int()>& body) {
  try {
    return body();
  } catch (const InputError& error) {
    const Placement placement = find_placement(process_variables());
    if (placement.rank == 0 || placement.local_size == placement.size) throw;
    throw InputError(fmt::format("on {}: {}", this_host(), error.what()));
  }
}

/// Read by this rank. `gpu`: of backend cuda.
RankPower rank_power(const ProcessorEnergy& processors, const std::optional<GpuReport>& gpu,
                     const std::string& bus) {
  RankPower power;
  power.host = fnv1a(this_host());
  power.processors_watt = processors.watt();
  if (gpu) power.device = fnv1a(bus, power.host);
  if (gpu && gpu->state && gpu->state->mean_watt > 0) power.gpu_watt = gpu->state->mean_watt;
  return power;
}

EnergyReport measured_energy(const std::vector<RankPower>& ranks, const ProcessorEnergy& processors,
                             const MeasurementReport& measurement) {
  const double step = measurement.time.step.value;
  EnergyReport energy = energy_of(ranks, step, measurement.throughput.tokens_per_s * step);
  if (std::isnan(energy.processors_watt)) {
    const std::string& why = processors.why_unavailable();
    energy.unavailable.push_back("processors: " + (why.empty() ? "no RAPL counter on another host" : why));
  }
  if (measurement.gpu && std::isnan(energy.gpus_watt))
    energy.unavailable.emplace_back("gpus: NVML tells no power");
  return energy;
}

}  // namespace

int run_as_rank(const RunConfig& config, const RunFiles& asked, int& argc, char**& argv) {
  if (config.machine.backend == Backend::cuda) become_cuda_program();
  bind_this_rank();
  const MpiSession session(argc, argv);
  const auto body = [&] {
    if (const auto reason = why_invalid(config)) throw InputError(*reason);
    if (const auto reason = why_unsupported(config)) throw InputError(*reason);
    // Who started these ranks has looked at it, unless mpirun or srun did. Before any rank allocates.
    if (std::getenv(kRecordOutVariable) == nullptr) {
      const Placement placement = find_placement(process_variables());
      if (placement.local_rank <= 0)
        check_host_memory(config, {std::max(placement.local_size, 1), std::max(placement.rank, 0)});
    }
    std::string note;
    const HardwareProfile hardware = hardware_of(config, note);
    require_same_on_all_ranks(facts_of(config, hardware));
    MpiCommunicator communicator(config.layout());
    // One rank looks for all: when it throws, the others are ended with it. Who started them has heard the
    // remarks.
    if (communicator.rank() == 0) {
      if (const double error = communicator.clock_error().value; error > 0)
        say(fmt::format("note: the hosts' clocks are read as one, to within {:.1f} us\n", error * 1e6));
      for (const std::string& remark : check_files(config)) {
        if (std::getenv(kRecordOutVariable) == nullptr) say(fmt::format("note: {}\n", remark));
      }
    }
    const auto progress = [](int done, int all, double loss) {
      say(fmt::format("step {} of {}{}\n", done, all,
                      std::isnan(loss) ? "" : fmt::format(", loss {:.6f}", loss)));
    };
    const Schedule schedule = schedule_for(config);
    RunFiles files = asked;
    if (count_actions(schedule) > kMostTimelineActions) files.timelines.clear();
    files.checkpoints = prepared_checkpoints(config, asked.checkpoints, communicator);
    std::optional<DeviceMemoryReport> device_memory;
    std::optional<GpuReport> gpu;
    std::string bus;
    std::string unsaved;
    const auto train = [&] {
      switch (config.machine.backend) {
        case Backend::emulated:
          return train_emulated(config, schedule, hardware, communicator, progress,
                                !files.trace.empty() || count_actions(schedule) <= kMostTimelineActions);
        case Backend::cuda: {
          CudaRun run = train_on_cuda(config, schedule, rehearsed_step(config, schedule), files, communicator,
                                      progress);
          device_memory = std::move(run.device_memory);
          gpu = std::move(run.gpu);
          bus = std::move(run.bus);
          unsaved = std::move(run.unsaved);
          return std::move(run.training);
        }
        case Backend::cpu:
          break;
      }
      return train_on_cpu(config, schedule, communicator, progress, files.checkpoints);
    };
    ProbedRun probed(config, schedule, hardware, communicator);
    probed.before();
    const training::TrainingResult result = train();
    probed.after();
    const std::vector<Traffic> traffic = training::from_every_rank(communicator, result.step_traffic);
    std::vector<RankPower> powers;
    if (result.energy) powers = training::from_every_rank(communicator, rank_power(*result.energy, gpu, bus));
    if (communicator.rank() == 0) {
      MeasurementReport measurement = report_of(result, config, schedule, traffic, hardware);
      measurement.device_memory = std::move(device_memory);
      measurement.gpu = std::move(gpu);
      if (result.energy) measurement.energy = measured_energy(powers, *result.energy, measurement);
      if (result.checkpoints) measurement.checkpoints = report_of(*result.checkpoints, files.checkpoints);
      const std::string files_unsaved = try_to_write_files(files, config, schedule, hardware, result);
      write_measurement(measurement, probed.report(measurement),
                        files_unsaved.empty() ? unsaved : files_unsaved);
    }
    return static_cast<int>(ExitCode::done);
  };
  return session.guard([&] { return naming_the_host(body); });
}

}  // namespace plumbline
