// Device memory registered with NCCL's communicators. Collectives and messages use it in place, instead of
// copying it through buffers of their own, and switches reduce it (NVLS).
#pragma once

#include <memory>
#include <string>

#include "core/backends/nccl/nccl_communicator.hpp"
#include "core/tensor/arena.hpp"

namespace plumbline {

/// Amount of registered memory.
struct RegisteredUse {
  Bytes now;
  Bytes most;
  int pieces = 0;         // when there were most
  int communicators = 0;  // that know each
};

/// "registered with 3 communicators of NCCL 2.28.9: 67108864 bytes in 1 piece".
std::string to_string(const RegisteredUse& use);

/// A source of pieces from ncclMemAlloc, each registered with every communicator before use, and deregistered
/// before it is freed. Pieces should be large and few. Every piece of memory in NCCL's calls comes from here,
/// or none: so the ranks agree at the start.
class RegisteredMemory final : public MemorySource {
 public:
  /// Null, and `why`, where NCCL is too old or refuses on any rank: all ranks find the same. Collective over
  /// the world. The communicator must outlive the result.
  static std::unique_ptr<RegisteredMemory> make(NcclCommunicator& communicator, std::string& why);

  /// Throws std::bad_alloc when NCCL has no such memory, Error when a communicator refuses memory that all
  /// accepted at first.
  void* allocate(Bytes bytes) override;
  void release(void* data, Bytes bytes) noexcept override;

  const RegisteredUse& use() const { return *use_; }
  /// The same, to be read when this has gone.
  std::shared_ptr<const RegisteredUse> shared_use() const { return use_; }

 private:
  explicit RegisteredMemory(NcclCommunicator& communicator) : communicator_(communicator) {
    use_->communicators = communicator.communicators();
  }

  NcclCommunicator& communicator_;
  std::shared_ptr<RegisteredUse> use_ = std::make_shared<RegisteredUse>();
  int pieces_ = 0;
};

}  // namespace plumbline
