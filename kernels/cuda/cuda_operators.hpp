// The operator list on an NVIDIA GPU: cuBLASLt for every matrix product, own kernels for the rest. No CUDA
// header is needed to use it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor/arena.hpp"
#include "kernels/choice.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

/// Choice of a matrix product's algorithm, once per shape.
enum class GemmChoice {
  first,  // cuBLASLt's own first choice: the same in every process on one machine
  timed,  // the fastest of its best sixteen on this device; the choice, and with it the last bits of a
          // result, may differ from process to process
};

struct CudaOptions {
  int device = 0;
  GemmChoice gemm_choice = GemmChoice::timed;
  bool cudnn_attention = true;  // false: own kernels for every shape
  /// Attention's backward gives the same bits every time, from more memory or slower kernels
  /// (kernels/cuda/README.md).
  bool deterministic = false;
};

/// GPUs this process can use; 0 also if there is no driver.
int cuda_devices();

/// "NVIDIA H200, compute capability 9.0, 132 multiprocessors".
std::string cuda_device_name(int device);

/// True if the device multiplies 8-bit floating point numbers: compute capability 8.9 or later.
bool cuda_has_fp8(int device);

/// Operators over device memory in fp32, bf16 and fp16, submitted to one stream of their own in the order of
/// the calls. Only squared_norm, cross_entropy_gradient, upload, download and synchronize wait for the
/// device. Outside the arena they keep a fixed workspace for cuBLASLt (cuda_workspace()) and a scratch that
/// grows to the largest partial sums requested. Throws Error, with the call and CUDA's words, when a call
/// fails. One thread at a time.
std::unique_ptr<Operators> make_cuda_operators(const CudaOptions& options = {});

/// Bytes of workspace every object keeps for cuBLASLt.
Bytes cuda_workspace();

/// The stream (a cudaStream_t) of operators made by make_cuda_operators(), with which a communicator must
/// order its transfers. Throws Error for other operators.
void* cuda_stream(Operators& operators);

/// A stream beside it (a cudaStream_t), made when first asked for.
void* cuda_side_stream(Operators& operators);
/// Calls `work`, whose operators go into the side stream, with scratch of their own. Not for matrix products,
/// which throw Error, or attention, which cuDNN keeps in the other stream. The caller orders the two streams.
void run_on_side_stream(Operators& operators, const std::function<void()>& work);

/// Multiprocessors of the operators' device.
int cuda_multiprocessors(Operators& operators);
/// Matrix products whose algorithm is chosen from now on count on this many multiprocessors; kernels that
/// wait for other ranks hold the rest. 0: on all.
void count_on_multiprocessors(Operators& operators, int multiprocessors);

/// Kernels that have computed each kind of attention and matrix product so far: sorted by call.
std::vector<KernelChoice> cuda_choices(Operators& operators);

/// Device memory in the order of that stream (cudaMallocAsync) from a pool of its own, which keeps released
/// memory. `operators` must outlive it.
std::unique_ptr<MemorySource> device_memory(Operators& operators);

/// A pool of device memory in this process: its current and its peak reserved memory.
struct DevicePoolUse {
  Bytes reserved;
  Bytes most_reserved;
};
/// The pool of a source made by device_memory(). Throws Error for any other source.
DevicePoolUse device_pool_use(const MemorySource& memory);
/// The device's default pool, which the workspace of cuBLASLt and the operators' scratch come from.
DevicePoolUse library_pool_use(int device);
/// Resets its most_reserved.
void forget_library_pool_peak(int device);

/// Memory of a device as it reports it, all processes together.
struct DeviceMemoryUse {
  Bytes total;
  Bytes free;
};
DeviceMemoryUse device_memory_use(int device = 0);

}  // namespace plumbline
