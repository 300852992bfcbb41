// Which way NCCL's messages take, which only its log tells.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// Ways named in NCCL's log of level INFO, each once, sorted: "NET/Socket", "P2P/CUMEM", "SHM/direct", "NVLS".
std::vector<std::string> nccl_transports(std::string_view log);

/// Has NCCL write what it does at its start into a file that only this user can reach. To be made before NCCL's first call.
class NcclLog {
 public:
  /// Changes nothing where the user's environment says what NCCL logs (NCCL_DEBUG), or where no folder can be made.
  NcclLog();
  /// Removes the file and its folder.
  ~NcclLog();
  NcclLog(const NcclLog&) = delete;
  NcclLog& operator=(const NcclLog&) = delete;

  /// As nccl_transports() says, of what has been written so far.
  std::vector<std::string> transports() const;

 private:
  std::string folder_;  // this process's own, with the file in it; empty: not written
  std::string path() const { return folder_ + "/log"; }
};

}  // namespace plumbline
