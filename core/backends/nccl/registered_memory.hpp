// Device memory that NCCL's communicators know: collectives and messages use it where it is, instead of copying it through
// buffers of their own, and switches add up what it holds (NVLS).
#pragma once

#include <memory>
#include <string>

#include "core/backends/nccl/nccl_communicator.hpp"
#include "core/tensor/arena.hpp"

namespace plumbline {

/// What there is of it.
struct RegisteredUse {
  Bytes now;
  Bytes most;
  int pieces = 0;         // when there were most
  int communicators = 0;  // that know each
};

/// "registered with 3 communicators of NCCL 2.28.9: 67108864 bytes in 1 piece".
std::string to_string(const RegisteredUse& use);

/// A source of pieces from ncclMemAlloc, each registered with every communicator before it is handed out, and deregistered before
/// it is freed. Pieces should be large and few. Every piece of memory that goes into NCCL's calls comes from here, or none: so the
/// ranks agree at the start.
class RegisteredMemory final : public MemorySource {
 public:
  /// Null, and `why`, where NCCL is too old or refuses on any rank: all ranks find the same. Collective over the world. The
  /// communicator must outlive what is made.
  static std::unique_ptr<RegisteredMemory> make(NcclCommunicator& communicator, std::string& why);

  /// Throws std::bad_alloc when NCCL has no such memory, Error when a communicator refuses what all have taken at first.
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
