// Backend cuda, which lives in a program of its own, `plumbline-cuda` next to `plumbline`: CUDA's libraries
// are hundreds of megabytes that no other backend's processes should load, and they may be missing.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/evaluate/evaluation.hpp"
#include "bench/measure/operators/operator_timer.hpp"
#include "bench/plan/rehearsed_step.hpp"
#include "bench/record/device_memory_report.hpp"
#include "bench/record/gpu_report.hpp"
#include "bench/record/node_report.hpp"
#include "bench/training/generate/generator.hpp"
#include "bench/training/reinforcement/reinforcement_run.hpp"
#include "bench/training/trainer/trainer.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"

namespace plumbline {

/// In `plumbline`: replaces this process by plumbline-cuda with the same command line; throws InputError when
/// it is not there. In plumbline-cuda: returns.
void become_cuda_program();

/// Libraries that choose kernels and algorithms, with their versions; "": not there. Makes no context on a
/// device.
std::vector<std::pair<std::string, std::string>> cuda_library_versions();

struct CudaRun {
  training::TrainingResult training;
  DeviceMemoryReport device_memory;  // every rank's, the same on all of them
  GpuReport gpu;                     // this rank's, with the transports of all
  std::string bus;                   // of this rank's GPU; empty: unknown
  std::string unsaved;               // why the kernels' trace is missing; on world rank 0
};

/// Trains on this rank's GPU; ranks of one host take its devices round robin, and share them if there are
/// more ranks than devices. If a trace is asked for, CUPTI records the last step's kernels. They are tied to
/// their actions on one clock and written next to the trace as FILE.kernels.json. To be called after MPI has
/// been initialised and before any CUDA call. `rehearsed`: run before, without messages, so that kernels are
/// loaded and algorithms chosen. Throws InputError when there is no device. Collective.
CudaRun train_on_cuda(const RunConfig& config, const Schedule& schedule, const PlannedStep& rehearsed,
                      const RunFiles& files, MpiCommunicator& control,
                      const training::StepProgress& progress);

/// The same for `plumbline generate`.
generation::GenerationResult generate_on_cuda(const RunConfig& config,
                                              const generation::GenerationRequest& request,
                                              MpiCommunicator& control,
                                              const generation::GenerationProgress& progress);

/// Steps of reinforcement learning on this rank's GPU. `control`: MpiCommunicators; `pool`: this rank's, of
/// those that train or those that generate. Collective; as train_on_cuda() otherwise.
reinforcement::ReinforcementResult reinforce_on_cuda(const RunConfig& config, const Schedule& schedule,
                                                     const reinforcement::StepCommunicators& control,
                                                     MPI_Comm pool,
                                                     const reinforcement::ReinforcementProgress& progress);

/// Use of a communicator by a benchmark.
struct CudaMessages {
  bool between_pipeline_ranks = false;  // each sends to the next and the one before, round the pipeline
  bool registered = false;              // memory that NCCL has registered
};

/// Calls `work` with this rank's communicator over NCCL, operators on its GPU, and memory for both; ranks
/// share devices as in train_on_cuda(). Collective. Throws InputError without a device or where NCCL does not
/// register memory.
void with_cuda_messages(const Layout& layout, MpiCommunicator& control, const CudaMessages& use,
                        const std::function<void(Communicator&, Operators&, MemorySource&)>& work);

/// Calls `work` with operators on a GPU, memory there, and a timer that reads its clocks. After MPI has been
/// initialised. Throws InputError without a device.
void with_cuda_timer(const std::function<void(Operators&, MemorySource&, OperatorTimer&)>& work);

/// GPU of a rank in a check of nodes.
struct CudaNode {
  std::string device;
  /// Clocks, reasons for low ones, temperature, ECC, PCIe and NVLink, as far as NVML tells.
  std::function<void(NodeHealth&)> look;
};
/// Calls `work` with operators on this rank's GPU and memory there. Collective. Throws InputError without a
/// device.
void with_cuda_node(int world_rank,
                    const std::function<void(Operators&, MemorySource&, const CudaNode&)>& work);

/// Puts the measured times of this rank's device into the profile; peaks, the basis of utilisation, stay
/// those of the accelerator. Throws InputError without a device.
void measure_device_operators(HardwareProfile& profile,
                              const std::function<void(const char* what, double share)>& progress);

/// Device memory that this process uses besides tensors; every rank's own figures, communicators shared out
/// evenly. Collective over MPI_COMM_WORLD, with two ranks or more; before any CUDA call. Throws InputError
/// without a device, Error where the context's size cannot be had.
DeviceOverhead measure_device_overhead(int world_rank);

}  // namespace plumbline
