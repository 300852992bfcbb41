// Shared memory of a block when CUDA threads are threads of the host. `thread_local` variables of kernels,
// which -femulated-tls looks up by a call, are the block's here. Compiled without ThreadSanitizer, so that a
// lookup orders nothing.
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "tests/kernels/cuda/host_shared_memory.hpp"

namespace plumbline::cuda::host {
namespace {

constexpr std::size_t kMostShared = std::size_t{227} << 10;  // of compute capability 9.0
constexpr unsigned char kPoison = 0xFF;                      // NaN in every storage type
constexpr int kMostVariables = 256;
constexpr std::size_t kVariableBytes = std::size_t{4} << 20;  // of all kernels together

struct Variable {
  const void* control = nullptr;
  void* memory = nullptr;
};
struct Shared {
  bool locked = false;
  Variable variables[kMostVariables];
  std::size_t used = 0;
  alignas(64) unsigned char memory[kVariableBytes];
  alignas(16) unsigned char dynamic[kMostShared];
};
Shared blocks[kBlocksAtOnce];
thread_local int own_block = 0;

}  // namespace

void belong_to_block(int block) {
  own_block = block;
}

unsigned char* dynamic_shared() {
  return blocks[own_block].dynamic;
}

void poison_dynamic_shared() {
  std::memset(blocks[own_block].dynamic, kPoison, kMostShared);
}

}  // namespace plumbline::cuda::host

/// The first fields of the object that a compiler emits for a variable (compiler-rt, emutls.c).
struct EmulatedVariable {
  std::size_t size, alignment;
};

extern "C" void* __emutls_get_address(EmulatedVariable* control) {
  using namespace plumbline::cuda::host;
  Shared& block = blocks[own_block];
  while (__atomic_test_and_set(&block.locked, __ATOMIC_ACQUIRE)) {
  }
  Variable* place = block.variables;
  while (place->control != nullptr && place->control != control) ++place;
  if (place - block.variables == kMostVariables - 1) std::abort();
  if (place->control == nullptr) {
    const std::size_t bytes = (control->size + 63) / 64 * 64;
    if (block.used + bytes > kVariableBytes) std::abort();
    // Neither malloc nor memset: ThreadSanitizer would take them for accesses of this thread.
    volatile unsigned char* const fresh = block.memory + block.used;
    for (std::size_t i = 0; i < bytes; ++i) fresh[i] = kPoison;
    place->memory = block.memory + block.used;
    block.used += bytes;
    place->control = control;
  }
  void* const memory = place->memory;
  __atomic_clear(&block.locked, __ATOMIC_RELEASE);
  return memory;
}
