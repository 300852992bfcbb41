#include "bench/run/recovery/rank_process.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

namespace plumbline {
namespace {

/// True if one of the zero-terminated texts equals `wanted`.
bool has_entry(std::string_view all, std::string_view wanted) {
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\0', begin), all.size());
    if (all.substr(begin, end - begin) == wanted) return true;
    begin = end + 1;
  }
  return false;
}

/// Files as long as they are, and no byte longer: writing fails as on a full disk, with another word for it.
bool limit_files(pid_t process, bool full) {
  rlimit limit{};
  if (prlimit(process, RLIMIT_FSIZE, nullptr, &limit) != 0) return false;
  limit.rlim_cur = full ? 0 : limit.rlim_max;
  return prlimit(process, RLIMIT_FSIZE, &limit, nullptr) == 0;
}

}  // namespace

pid_t process_of_rank(const std::string& mark, int rank) {
  const std::string place = fmt::format("OMPI_COMM_WORLD_RANK={}", rank);
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    pid_t process = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), process);
    if (read.ec != std::errc() || read.ptr != name.data() + name.size()) continue;
    std::ifstream file(entry->path() / "environ", std::ios::binary);
    const std::string environment{std::istreambuf_iterator<char>(file), {}};
    if (has_entry(environment, mark) && has_entry(environment, place)) return process;
  }
  return 0;
}

bool injure(pid_t process, Injected kind) {
  switch (kind) {
    case Injected::kill:
      return kill(process, SIGKILL) == 0;
    case Injected::hang:
      return kill(process, SIGSTOP) == 0;
    case Injected::disk:
      return limit_files(process, true);
  }
  return false;
}

void let_write(pid_t process) {
  limit_files(process, false);
}

}  // namespace plumbline
