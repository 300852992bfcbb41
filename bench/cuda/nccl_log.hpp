// Transport of NCCL's messages, which only its log reports.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// Transports named in NCCL's log of level INFO, each once, sorted: "NET/IB/GDRDMA", "NET/Socket",
/// "P2P/CUMEM", "SHM/direct", "NVLS".
std::vector<std::string> nccl_transports(std::string_view log);

/// The log's first warnings, a line each: "NCCL WARN ...".
std::string nccl_warnings(std::string_view log);

/// Has NCCL write its start-up log into a file that only this user can reach. To be made before NCCL's first
/// call.
class NcclLog {
 public:
  /// Changes nothing if the user's environment sets NCCL's log (NCCL_DEBUG), or no folder can be made.
  NcclLog();
  /// Removes the file and its folder; during stack unwinding writes the warnings to standard error first.
  ~NcclLog();
  NcclLog(const NcclLog&) = delete;
  NcclLog& operator=(const NcclLog&) = delete;

  /// As the functions above, for the log written so far.
  std::vector<std::string> transports() const { return nccl_transports(text()); }
  std::string warnings() const { return nccl_warnings(text()); }

 private:
  std::string folder_;  // this process's own, with the file in it; empty: not written
  std::string text() const;
  std::string path() const { return folder_ + "/log"; }
};

}  // namespace plumbline
