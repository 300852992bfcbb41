// Construction of the CUDA operators, copies, and the questions about devices.
#include "kernels/cuda/backend/cuda_backend.hpp"

#include <algorithm>
#include <string>

#include "core/base/error.hpp"
#include "kernels/checks/checked.hpp"

namespace plumbline {
namespace cuda {

Stream::Stream(int device) {
  PLUMBLINE_CUDA(cudaSetDevice(device));
  PLUMBLINE_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

Stream::~Stream() {
  static_cast<void>(cudaStreamDestroy(stream_));
}

namespace {

int multiprocessors_of(int device) {
  int count = 1;
  PLUMBLINE_CUDA(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

/// Dynamic shared memory of a block, besides the static of its reductions.
std::size_t shared_bytes_of(int device) {
  constexpr int kStatic = 1 << 10;
  int bytes = 0;
  PLUMBLINE_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return static_cast<std::size_t>(bytes - kStatic);
}

}  // namespace

CudaOperators::CudaOperators(const CudaOptions& options)
    : device_(options.device),
      stream_(options.device),
      queue_{stream_.get(), multiprocessors_of(options.device), shared_bytes_of(options.device)},
      partials_(stream_.get()),
      numbers_(stream_.get()),
      matmul_(stream_.get(), options.device, options.gemm_choice),
      cudnn_(options.device, queue_, options.cudnn_attention, options.deterministic) {}

void CudaOperators::copy(Matrix from, Matrix to) {
  if (from.empty()) return;
  if (from.dtype != to.dtype) return convert(queue_, from, to);
  const std::int64_t size = size_of(from.dtype);
  if (from.contiguous() && to.contiguous()) {
    PLUMBLINE_CUDA(cudaMemcpyAsync(to.data, from.data, static_cast<std::size_t>(from.bytes().value),
                                   cudaMemcpyDeviceToDevice, queue_.stream));
    return;
  }
  PLUMBLINE_CUDA(cudaMemcpy2DAsync(
      to.data, static_cast<std::size_t>(to.stride * size), from.data,
      static_cast<std::size_t>(from.stride * size), static_cast<std::size_t>(from.cols * size),
      static_cast<std::size_t>(from.rows), cudaMemcpyDeviceToDevice, queue_.stream));
}

void CudaOperators::upload(const void* host, Matrix x) {
  if (x.empty()) return;
  PLUMBLINE_CUDA(cudaMemcpyAsync(x.data, host, static_cast<std::size_t>(x.bytes().value),
                                 cudaMemcpyHostToDevice, queue_.stream));
  synchronize();
}

void CudaOperators::download(Matrix x, void* host) {
  if (!x.empty()) {
    PLUMBLINE_CUDA(cudaMemcpyAsync(host, x.data, static_cast<std::size_t>(x.bytes().value),
                                   cudaMemcpyDeviceToHost, queue_.stream));
  }
  synchronize();
}

void CudaOperators::synchronize() {
  PLUMBLINE_CUDA(cudaStreamSynchronize(queue_.stream));
}

cudaStream_t CudaOperators::side_stream() {
  if (!side_) side_ = std::make_unique<Side>(device_);
  return side_->stream.get();
}

void CudaOperators::swap_with_side() {
  queue_.stream = queue_.stream == stream() ? side_stream() : stream();
  partials_.swap(side_->partials);
  numbers_.swap(side_->numbers);
}

void CudaOperators::run_on_side_stream(const std::function<void()>& work) {
  struct Switch {
    explicit Switch(CudaOperators& switched) : operators(switched) { operators.swap_with_side(); }
    ~Switch() { operators.swap_with_side(); }
    Switch(const Switch&) = delete;
    Switch& operator=(const Switch&) = delete;
    CudaOperators& operators;
  };
  const Switch there(*this);
  work();
}

std::vector<KernelChoice> CudaOperators::choices() const {
  std::vector<KernelChoice> all = cudnn_.choices();
  const std::vector<KernelChoice> products = matmul_.choices();
  all.insert(all.end(), products.begin(), products.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const KernelChoice& a, const KernelChoice& b) { return a.call < b.call; });
  return all;
}

namespace {

CudaOperators& own(Operators& operators, const char* call) {
  auto* found = dynamic_cast<CudaOperators*>(&operators);
  if (found == nullptr) {
    throw Error(std::string(call) + ": these operators were not made by make_cuda_operators()");
  }
  return *found;
}

}  // namespace
}  // namespace cuda

std::unique_ptr<Operators> make_cuda_operators(const CudaOptions& options) {
  return std::make_unique<Checked<cuda::CudaOperators>>(options);
}

void* cuda_stream(Operators& operators) {
  return cuda::own(operators, "cuda_stream").stream();
}

void* cuda_side_stream(Operators& operators) {
  return cuda::own(operators, "cuda_side_stream").side_stream();
}

void run_on_side_stream(Operators& operators, const std::function<void()>& work) {
  cuda::own(operators, "run_on_side_stream").run_on_side_stream(work);
}

int cuda_multiprocessors(Operators& operators) {
  return cuda::own(operators, "cuda_multiprocessors").multiprocessors();
}

void count_on_multiprocessors(Operators& operators, int multiprocessors) {
  cuda::own(operators, "count_on_multiprocessors").count_on(multiprocessors);
}

std::vector<KernelChoice> cuda_choices(Operators& operators) {
  return cuda::own(operators, "cuda_choices").choices();
}

}  // namespace plumbline
