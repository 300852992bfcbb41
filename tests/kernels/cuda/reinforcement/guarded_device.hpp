// A device in the host's memory that only its operators, messages and copies can touch: reads and writes by
// other code end the process.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "core/run/communicator.hpp"
#include "core/run/host_lane.hpp"
#include "core/tensor/arena.hpp"
#include "kernels/operators.hpp"

namespace plumbline::test {

class GuardedDevice {
 public:
  GuardedDevice();
  ~GuardedDevice();
  GuardedDevice(const GuardedDevice&) = delete;
  GuardedDevice& operator=(const GuardedDevice&) = delete;

  void open();
  void close();
  /// Calls `work` while the memory can be touched.
  template <class Work>
  auto with(const Work& work) {
    struct Opened {
      explicit Opened(GuardedDevice& of) : device(of) { device.open(); }
      ~Opened() { device.close(); }
      Opened(const Opened&) = delete;
      Opened& operator=(const Opened&) = delete;
      GuardedDevice& device;
    };
    const Opened opened(*this);
    return work();
  }

  void* allocate(std::size_t bytes);
  void release(void* data);
  std::byte* begin() const { return begin_; }

 private:
  std::byte* begin_;
  std::map<std::size_t, std::size_t> used_;  // first, behind the last
  int depth_ = 0;
};

/// Memory of the device, which must outlive it. Throws std::bad_alloc.
std::unique_ptr<MemorySource> guarded_memory(GuardedDevice& device);

/// `operators` on the device's memory.
std::unique_ptr<Operators> guarded_operators(std::unique_ptr<Operators> operators, GuardedDevice& device);

/// `messages` of the device's memory, on the same ranks.
std::unique_ptr<Communicator> guarded_messages(std::unique_ptr<Communicator> messages, GuardedDevice& device);

/// Copies between the device and the host's memory.
std::unique_ptr<HostLane> guarded_host_lane(GuardedDevice& device);

}  // namespace plumbline::test
