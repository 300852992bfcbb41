// Machine facts from the CUDA libraries in this process.
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "bench/cuda/cuda_backend.hpp"
#include "bench/measure/machine/cuda_facts.hpp"
#include "core/backends/nccl/nccl_communicator.hpp"
#include "core/profile/cupti_collector.hpp"

namespace plumbline {
namespace {

std::string thousands(int version) {
  return version == 0 ? "" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// cuDNN is looked for, not needed.
std::string cudnn_version() {
  void* library = ::dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return "";
  auto* const version = reinterpret_cast<std::size_t (*)()>(::dlsym(library, "cudnnGetVersion"));
  if (version == nullptr) return "";
  const std::size_t number = version();
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

std::string cublas_version() {
  const std::size_t number = cublasLtGetVersion();
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

std::string problem_of(cudaError_t error, int driver) {
  if (error == cudaSuccess) return "";
  if (driver == 0) return "this machine has no NVIDIA driver (libcuda.so.1)";
  return fmt::format("{} (CUDA error {})", cudaGetErrorString(error), static_cast<int>(error));
}

CudaFacts look() {
  CudaFacts facts;
  facts.built = true;
  int driver = 0;
  (void)cudaDriverGetVersion(&driver);
  facts.versions = cuda_library_versions();
  facts.versions.insert(facts.versions.begin(), {"cuda_driver", thousands(driver)});
  facts.versions.emplace_back("cupti", std::to_string(cupti_version()));
  int devices = 0;
  facts.problem = problem_of(cudaGetDeviceCount(&devices), driver);
  if (facts.problem.empty() && devices == 0) facts.problem = "this machine has no GPU";
  for (int i = 0; facts.problem.empty() && i < devices; ++i) {
    cudaDeviceProp properties{};
    std::size_t free = 0;
    std::size_t total = 0;
    cudaError_t error = cudaGetDeviceProperties(&properties, i);
    if (error == cudaSuccess) error = cudaSetDevice(i);
    if (error == cudaSuccess) error = cudaMemGetInfo(&free, &total);
    facts.problem = problem_of(error, driver);
    facts.devices.push_back({properties.name, fmt::format("{}.{}", properties.major, properties.minor),
                             Bytes{static_cast<std::int64_t>(total)},
                             Bytes{static_cast<std::int64_t>(free)}});
  }
  return facts;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> cuda_library_versions() {
  int runtime = 0;
  (void)cudaRuntimeGetVersion(&runtime);
  return {{"cuda_runtime", thousands(runtime)},
          {"cublaslt", cublas_version()},
          {"cudnn", cudnn_version()},
          {"nccl", nccl_version()}};
}

const CudaFacts& cuda_facts() {
  static const CudaFacts facts = look();
  return facts;
}

}  // namespace plumbline
