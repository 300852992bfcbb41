#include "bench/measure/machine/cuda_program.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// Sets problem and remedy: the first reason that applies, in the order in which configure looks.
void explain_missing_program(const CudaBuild& build, const std::filesystem::path& folder, CudaFacts& facts) {
  constexpr const char* kMissing = "plumbline-cuda was not built:";
  if (!build.wanted) {
    facts.problem = fmt::format("{} configured with PLUMBLINE_WITH_CUDA=OFF", kMissing);
    facts.remedy = "configure with -DPLUMBLINE_WITH_CUDA=ON";
  } else if (build.sanitized) {
    facts.problem = fmt::format("{} PLUMBLINE_SANITIZE leaves CUDA out", kMissing);
    facts.remedy = "configure without PLUMBLINE_SANITIZE";
  } else if (!build.toolkit) {
    facts.problem = fmt::format("{} configure found no CUDA toolkit (nvcc and cuBLASLt)", kMissing);
    facts.remedy = "install one and configure again";
  } else if (!build.nccl || !build.cupti) {
    const char* lacking = build.nccl ? "CUPTI" : "NCCL";
    facts.problem = fmt::format("{} configure found a CUDA toolkit without {}", kMissing, lacking);
    facts.remedy = fmt::format("install {} and configure again", lacking);
  } else {
    facts.problem = fmt::format("{} configure found a CUDA toolkit, but its target was left out", kMissing);
    const std::filesystem::path built_in = folder.parent_path();
    facts.remedy =
        std::filesystem::exists(built_in / "CMakeCache.txt")
            ? fmt::format("build it: cmake --build {} --target plumbline_cuda_program", built_in.string())
            : "build target plumbline_cuda_program and install again";
  }
}

/// Output of a program, and whether it ended well.
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

}  // namespace

CudaBuild configured_cuda() {
  return {PLUMBLINE_CUDA_WANTED == 1, PLUMBLINE_CUDA_SANITIZED == 1, PLUMBLINE_CUDA_TOOLKIT == 1,
          PLUMBLINE_CUDA_NCCL == 1, PLUMBLINE_CUDA_CUPTI == 1};
}

std::filesystem::path cuda_program(const std::filesystem::path& folder) {
  return folder / "plumbline-cuda";
}

CudaFacts ask_cuda_program(const std::filesystem::path& folder, const CudaBuild& build) {
  const std::string program = cuda_program(folder).string();
  CudaFacts facts;
  if (::access(program.c_str(), X_OK) != 0) {
    explain_missing_program(build, folder, facts);
    return facts;
  }
  bool good = false;
  const std::string text = output_of(program, "--cuda", good);
  if (good) return parse_cuda_facts(text);
  facts.built = true;
  facts.problem = fmt::format("{} does not start", program);
  facts.remedy = "put the folders of CUDA's libraries into LD_LIBRARY_PATH";
  return facts;
}

}  // namespace plumbline
