// Claims as locks.
#include "bench/record/cell_claims.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/error.hpp"

namespace plumbline {

CellClaim::~CellClaim() {
  if (file_ >= 0) close(file_);
}

CellClaim::CellClaim(CellClaim&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

CellClaim& CellClaim::operator=(CellClaim&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

CellClaims::CellClaims(const std::string& folder) : folder_(folder + "/claims") {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error)
    throw InputError(fmt::format("{}: {}; expected a folder that can be written", folder_, error.message()));
}

std::optional<CellClaim> CellClaims::take(const std::string& id) const {
  const std::string path = folder_ + "/" + id;
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file < 0) throw Error(fmt::format("{}: {}", path, std::strerror(errno)));
  CellClaim claim(file);
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return claim;
  if (errno == EWOULDBLOCK) return std::nullopt;
  throw Error(fmt::format("{}: cannot be locked: {}; expected a file system with locks (flock)", path,
                          std::strerror(errno)));
}

}  // namespace plumbline
