#include "core/backends/nccl/registered_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <new>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr int kRegisters = 21903;  // NCCL 2.19.3: ncclMemAlloc and ncclCommRegister
constexpr Bytes kTrial{std::int64_t{2} << 20};

/// "", or why this rank cannot have such memory.
std::string try_once(NcclCommunicator& communicator) {
  if (nccl_version_number() < kRegisters) {
    return fmt::format("NCCL {} has no ncclCommRegister, expected 2.19.3 or later", nccl_version());
  }
  if (communicator.communicators() == 0) return "one rank has no communicators";
  void* data = nullptr;
  const ncclResult_t given = ncclMemAlloc(&data, static_cast<std::size_t>(kTrial.value));
  if (given != ncclSuccess) {
    (void)cudaGetLastError();  // it was handled: the next call must not report it
    return fmt::format("ncclMemAlloc: {}", nccl_words(given, nullptr));
  }
  std::string refused = communicator.register_memory(data, kTrial);
  communicator.deregister_memory(data);
  (void)ncclMemFree(data);
  return refused;
}

}  // namespace

std::string to_string(const RegisteredUse& use) {
  return fmt::format("registered with {} communicators of NCCL {}: {} bytes in {} piece{}", use.communicators,
                     nccl_version(), use.most.value, use.pieces, use.pieces == 1 ? "" : "s");
}

std::unique_ptr<RegisteredMemory> RegisteredMemory::make(NcclCommunicator& communicator, std::string& why) {
  why = try_once(communicator);
  float refusals = why.empty() ? 0 : 1;
  communicator.all_reduce(Group::world, Matrix(&refusals, 1, 1, DType::fp32), ReduceOp::sum);
  if (refusals == 0) return std::unique_ptr<RegisteredMemory>(new RegisteredMemory(communicator));
  if (why.empty()) why = fmt::format("{} of the other ranks cannot register memory", refusals);
  return nullptr;
}

void* RegisteredMemory::allocate(Bytes bytes) {
  void* data = nullptr;
  if (ncclMemAlloc(&data, static_cast<std::size_t>(bytes.value)) != ncclSuccess) {
    (void)cudaGetLastError();
    throw std::bad_alloc();
  }
  const std::string refused = communicator_.register_memory(data, bytes);
  if (!refused.empty()) {
    (void)ncclMemFree(data);
    throw Error(fmt::format("{}; {} pieces were taken before: set nccl_ub to false", refused, pieces_));
  }
  ++pieces_;
  use_->now += bytes;
  if (use_->now > use_->most) {
    use_->most = use_->now;
    use_->pieces = pieces_;
  }
  return data;
}

void RegisteredMemory::release(void* data, Bytes bytes) noexcept {
  communicator_.deregister_memory(data);
  (void)ncclMemFree(data);
  --pieces_;
  use_->now -= bytes;
}

}  // namespace plumbline
