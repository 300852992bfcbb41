#include "bench/cuda/cuda_rank.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "core/backends/nccl/device_variables.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"

namespace plumbline {
namespace {

/// Seconds without any communication ending while some is in progress, after which a rank reports whom it
/// waits for and ends. The runner's own timeout covers everything else.
constexpr const char* kTimeoutVariable = "PLUMBLINE_NCCL_TIMEOUT";

/// Before the first call of CUDA.
int with_all_queues(int world_rank) {
  const std::string queues = use_all_queues();
  if (world_rank == 0) say(queues);
  return world_rank;
}

}  // namespace

WatchdogOptions watchdog_options() {
  WatchdogOptions options;
  const char* text = std::getenv(kTimeoutVariable);
  if (text == nullptr) return options;
  char* end = nullptr;
  options.timeout = {std::strtod(text, &end)};
  if (end == text || *end != '\0' || !(options.timeout.value > 0)) {
    throw InputError(fmt::format("{}: found \"{}\", expected seconds", kTimeoutVariable, text));
  }
  return options;
}

CudaRank::CudaRank(int world_rank, const CudaOptions& options)
    : place(with_all_queues(world_rank)), device(place), operators(device.open(options)) {}

NcclOptions CudaRank::nccl_options() const {
  NcclOptions options;
  options.compute = static_cast<cudaStream_t>(cuda_stream(*operators));
  options.watchdog = watchdog_options();
  options.multiprocessors = cuda_multiprocessors(*operators);
  return options;
}

}  // namespace plumbline
