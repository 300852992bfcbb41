// Transport of NCCL's messages, which only its log reports.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// Transports named in NCCL's log of level INFO, each once, sorted: "NET/Socket", "P2P/CUMEM", "SHM/direct",
/// "NVLS".
std::vector<std::string> nccl_transports(std::string_view log);

/// Has NCCL write its start-up log into a file that only this user can reach. To be made before NCCL's first
/// call.
class NcclLog {
 public:
  /// Changes nothing if the user's environment sets NCCL's log (NCCL_DEBUG), or no folder can be made.
  NcclLog();
  /// Removes the file and its folder.
  ~NcclLog();
  NcclLog(const NcclLog&) = delete;
  NcclLog& operator=(const NcclLog&) = delete;

  /// As nccl_transports(), for the log written so far.
  std::vector<std::string> transports() const;

 private:
  std::string folder_;  // this process's own, with the file in it; empty: not written
  std::string path() const { return folder_ + "/log"; }
};

}  // namespace plumbline
