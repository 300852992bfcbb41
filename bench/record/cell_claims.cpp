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

#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/output_folder.hpp"

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
  std::filesystem::create_directories(folder, error);
  if (error)
    throw OutputError(fmt::format("{}: {}; expected a folder that can be written", folder_, error.message()));
  OutputFolder::make(folder_);
}

std::optional<CellClaim> CellClaims::take(const std::string& id) const {
  const int file = OutputFolder::made(folder_).open_file(id, O_RDWR);
  CellClaim claim(file);
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return claim;
  if (errno == EWOULDBLOCK) return std::nullopt;
  throw Error(fmt::format("{}/{}: cannot be locked: {}; expected a file system with locks (flock)", folder_,
                          id, std::strerror(errno)));
}

}  // namespace plumbline
