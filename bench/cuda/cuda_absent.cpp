// The program without CUDA: all device work is left to plumbline-cuda.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "bench/cuda/cuda_backend.hpp"
#include "bench/measure/machine/cuda_program.hpp"
#include "bench/processes/launch/launch.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

std::filesystem::path own_folder() {
  return std::filesystem::path(self_path()).parent_path();
}

}  // namespace

const CudaFacts& cuda_facts() {
  static const CudaFacts facts = ask_cuda_program(own_folder(), configured_cuda());
  return facts;
}

void become_cuda_program() {
  const std::string program = cuda_program(own_folder()).string();
  if (::access(program.c_str(), X_OK) != 0)
    throw InputError(why_no_cuda(cuda_facts()).value_or(program + " cannot be started"));
  // The command line as the system keeps it: words that end in a zero.
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::fflush(nullptr);
  ::execv(program.c_str(), arguments.data());
  throw InputError(fmt::format("{} cannot be started: {}", program, std::strerror(errno)));
}

std::vector<std::pair<std::string, std::string>> cuda_library_versions() {
  return {};
}

CudaRun train_on_cuda(const RunConfig& /*config*/, const Schedule& /*schedule*/,
                      const PlannedStep& /*rehearsed*/, const RunFiles& /*files*/,
                      MpiCommunicator& /*control*/, const training::StepProgress& /*progress*/) {
  throw Error("backend cuda runs in plumbline-cuda");
}

generation::GenerationResult generate_on_cuda(const RunConfig& /*config*/,
                                              const generation::GenerationRequest& /*request*/,
                                              MpiCommunicator& /*control*/,
                                              const generation::GenerationProgress& /*progress*/) {
  throw Error("backend cuda runs in plumbline-cuda");
}

reinforcement::ReinforcementResult reinforce_on_cuda(
    const RunConfig& /*config*/, const Schedule& /*schedule*/,
    const reinforcement::StepCommunicators& /*control*/, MPI_Comm /*pool*/,
    const reinforcement::ReinforcementProgress& /*progress*/) {
  throw Error("backend cuda runs in plumbline-cuda");
}

void with_cuda_messages(const Layout& /*layout*/, MpiCommunicator& /*control*/, const CudaMessages& /*use*/,
                        const std::function<void(Communicator&, Operators&, MemorySource&)>& /*work*/) {
  throw Error("backend cuda runs in plumbline-cuda");
}

void with_cuda_timer(const std::function<void(Operators&, MemorySource&, OperatorTimer&)>& /*work*/) {
  throw Error("backend cuda runs in plumbline-cuda");
}

void with_cuda_node(int /*world_rank*/,
                    const std::function<void(Operators&, MemorySource&, const CudaNode&)>& /*work*/) {
  throw Error("backend cuda runs in plumbline-cuda");
}

void measure_device_operators(HardwareProfile& /*profile*/,
                              const std::function<void(const char*, double)>& /*progress*/) {
  throw Error("backend cuda runs in plumbline-cuda");
}

DeviceOverhead measure_device_overhead(int /*world_rank*/) {
  throw Error("backend cuda runs in plumbline-cuda");
}

}  // namespace plumbline
