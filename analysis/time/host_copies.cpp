#include "analysis/time/host_copies.hpp"

#include "analysis/memory/framework_memory.hpp"
#include "analysis/memory/host_memory.hpp"
#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {

Seconds host_copy_time(Bytes bytes, const HardwareProfile& hardware, const Load& load) {
  if (hardware.accelerator() != nullptr)
    return bytes / BytesPerSecond{hardware.accelerator()->constants.device.host_bandwidth};
  return time_of(CallList::memory_call("copy", bytes.value / 4, 8, DType::fp32), hardware, load);
}

HostCopies host_copies(const StageShape& shape, ActionType type, const HardwareProfile& hardware,
                       const Load& load) {
  HostCopies copies;
  copies.states = host_copy_time(host_state_copies(shape, type), hardware, load);
  copies.back = type == ActionType::backward || type == ActionType::backward_input;
  if (!copies.back && type != ActionType::forward) return copies;
  for (const Bytes layer : offloaded_bytes(shape))
    copies.of_layer.push_back(host_copy_time(layer, hardware, load));
  return copies;
}

}  // namespace plumbline
