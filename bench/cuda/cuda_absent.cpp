// The program without CUDA: whatever needs a device is left to plumbline-cuda.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "bench/cuda/cuda_backend.hpp"
#include "bench/launch/launch.hpp"
#include "bench/machine/cuda_facts.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

std::string cuda_program() {
  return (std::filesystem::path(self_path()).parent_path() / "plumbline-cuda").string();
}

bool is_there(const std::string& program) {
  return ::access(program.c_str(), X_OK) == 0;
}

constexpr const char* kNotBuilt =
    "this build has no CUDA part (plumbline-cuda): configure where there is a CUDA toolkit with NCCL";

/// What a program prints, and whether it ended well.
std::string output_of(const std::string& program, const char* argument, bool& good) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw Error(fmt::format("pipe: {}", std::strerror(errno)));
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    ::execl(program.c_str(), program.c_str(), "doctor", argument, static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t got = 0; child > 0 && (got = ::read(ends[0], piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = -1;
  if (child > 0) ::waitpid(child, &status, 0);
  good = status == 0;
  return text;
}

CudaFacts ask() {
  CudaFacts facts;
  if (!is_there(cuda_program())) {
    facts.problem = kNotBuilt;
    return facts;
  }
  bool good = false;
  const std::string text = output_of(cuda_program(), "--cuda", good);
  if (good) return parse_cuda_facts(text);
  facts.built = true;
  facts.problem =
      fmt::format("{} does not start: are CUDA's libraries where it looks for them?", cuda_program());
  return facts;
}

}  // namespace

const CudaFacts& cuda_facts() {
  static const CudaFacts facts = ask();
  return facts;
}

void become_cuda_program() {
  const std::string program = cuda_program();
  if (!is_there(program)) throw InputError(fmt::format("backend: found cuda, but {}", kNotBuilt));
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

CudaRun train_on_cuda(const RunConfig& /*config*/, const Schedule& /*schedule*/, const RunFiles& /*files*/,
                      MpiCommunicator& /*control*/, const training::StepProgress& /*progress*/) {
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
