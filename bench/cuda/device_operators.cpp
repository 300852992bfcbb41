// The operators of a card, measured by one rank.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>

#include "bench/cuda/cuda_backend.hpp"
#include "bench/cuda/cuda_device.hpp"
#include "bench/cuda/times/device_operator_timer.hpp"
#include "bench/cuda/times/gpu_operator_times.hpp"
#include "bench/measure/machine/nvml.hpp"
#include "core/base/standard_streams.hpp"
#include "kernels/cuda/cuda_operators.hpp"

namespace plumbline {

void with_cuda_timer(const std::function<void(Operators&, MemorySource&, OperatorTimer&)>& work) {
  const int device = take_device(0);
  const auto operators = make_cuda_operators({.device = device});
  const auto memory = device_memory(*operators);
  DeviceTimer timer(static_cast<cudaStream_t>(cuda_stream(*operators)));
  const Nvml nvml(bus_of(device));
  DeviceOperatorTimer with_clock(timer, [&] {
    const auto look = nvml.look();
    return look ? look->sm_mhz : 0;
  });
  work(*operators, *memory, with_clock);
}

void with_cuda_node(int world_rank,
                    const std::function<void(Operators&, MemorySource&, const CudaNode&)>& work) {
  const int device = take_device(world_rank);
  const auto operators = make_cuda_operators({.device = device});
  const auto memory = device_memory(*operators);
  const Nvml nvml(bus_of(device));
  work(*operators, *memory, {cuda_device_name(device), [&](NodeHealth& health) {
                               if (const auto look = nvml.look()) {
                                 health.sm_mhz = look->sm_mhz;
                                 health.celsius = std::max(health.celsius, look->celsius);
                                 health.throttled = throttle_reasons(look->reasons);
                               }
                               nvml.add_links_and_errors(health);
                             }});
}

void measure_device_operators(HardwareProfile& profile,
                              const std::function<void(const char* what, double share)>& progress) {
  const int device = take_device(0);
  const auto operators = make_cuda_operators({.device = device});
  const auto memory = device_memory(*operators);
  DeviceTimer timer(static_cast<cudaStream_t>(cuda_stream(*operators)));
  profile.alone = {measure_operator_times(*operators, *memory, timer, cuda_has_fp8(device), progress)};
  say(fmt::format("[calibrate] {}\n", to_string(measure_clock_rates(*operators, *memory, timer))));
}

}  // namespace plumbline
