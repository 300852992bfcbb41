// Devices, driver and libraries of a machine for backend cuda.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/record/record.hpp"

namespace plumbline {

struct CudaDevice {
  std::string name;        // "NVIDIA H200"
  std::string capability;  // "9.0"
  Bytes memory;
  Bytes free;
};

struct CudaFacts {
  bool built = false;   // this program came with its CUDA part
  std::string problem;  // why no device can be used; empty: one can
  std::string remedy;   // the necessary change; empty: none is known
  std::vector<CudaDevice> devices;
  std::vector<std::pair<std::string, std::string>> versions;  // driver, cuda, nccl, cudnn, …; "" = not there
};

/// Asked once per process. Without the CUDA part, only `problem` and `remedy` are set.
const CudaFacts& cuda_facts();

OrderedJson to_json(const CudaFacts& facts);
/// Throws InputError for anything but the output of to_json.
CudaFacts parse_cuda_facts(std::string_view text);

/// One line for a configuration with backend cuda that cannot run here, or nothing.
std::optional<std::string> why_no_cuda(const CudaFacts& facts);

/// Adds the versions to a record's machine, and the environment that ranks set themselves. For several ranks
/// per GPU the label "shared-gpu" comes behind the GPU's name, with NCCL's settings: results with that label
/// do not show speed. `ranks`: of this host.
void add_cuda(const CudaFacts& facts, int ranks, MachineReport& machine);

}  // namespace plumbline
