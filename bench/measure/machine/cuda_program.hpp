// The program of backend cuda, plumbline-cuda, as seen from a program without CUDA: is it there, and why not?
#pragma once

#include <filesystem>
#include <string>

#include "bench/measure/machine/cuda_facts.hpp"

namespace plumbline {

/// CUDA at configure time. Target plumbline_cuda_program exists where all but `sanitized` are true.
struct CudaBuild {
  bool wanted = true;      // PLUMBLINE_WITH_CUDA
  bool sanitized = false;  // PLUMBLINE_SANITIZE is set: CUDA is left out
  bool toolkit = true;     // a working nvcc and cuBLASLt
  bool nccl = true;
  bool cupti = true;
};

/// Values of this build, written by CMake.
CudaBuild configured_cuda();

/// The program next to others in `folder`.
std::filesystem::path cuda_program(const std::filesystem::path& folder);

/// Starts the program in `folder` and reads its report on the machine. If it is missing or does not start,
/// `problem` and `remedy` say why and what to do.
CudaFacts ask_cuda_program(const std::filesystem::path& folder, const CudaBuild& build);

}  // namespace plumbline
