// Owner of each cell, where several runners fill one results folder at the same time.
#pragma once

#include <optional>
#include <string>

namespace plumbline {

/// A cell that belongs to this process as long as the claim lives: a lock on DIR/claims/ID, which ends with
/// its owner in any case.
class CellClaim {
 public:
  explicit CellClaim(int file) : file_(file) {}
  ~CellClaim();
  CellClaim(CellClaim&& other) noexcept;
  CellClaim& operator=(CellClaim&& other) noexcept;
  CellClaim(const CellClaim&) = delete;
  CellClaim& operator=(const CellClaim&) = delete;

 private:
  int file_;
};

class CellClaims {
 public:
  /// Makes DIR/claims. The file system must have locks (flock) that all hosts see, as NFS 4 and Lustre with
  /// -o flock do. Throws InputError.
  explicit CellClaims(const std::string& folder);

  /// Nothing when another runner has the cell. Throws Error.
  std::optional<CellClaim> take(const std::string& id) const;

 private:
  std::string folder_;
};

}  // namespace plumbline
