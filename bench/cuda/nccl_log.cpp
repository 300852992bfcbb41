#include "bench/cuda/nccl_log.hpp"

#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <set>
#include <sstream>

#include "core/base/one_line.hpp"
#include "core/base/standard_streams.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kVia = " via ";

constexpr std::string_view kDirect = "/GDRDMA";  // the network card reaches the GPU's memory
constexpr std::string_view kWarning = "NCCL WARN ";

/// "NET/Socket/GDRDMA" of "NET/Socket/0(1)/GDRDMA": transport and kind.
std::string way_of(std::string_view rest) {
  rest = rest.substr(0, rest.find_first_of(" \n\r"));
  const bool direct = rest.find(kDirect) != std::string_view::npos;
  rest = rest.substr(0, rest.find('('));
  const std::size_t kind = rest.find('/');
  const std::size_t end = kind == std::string_view::npos ? kind : rest.find('/', kind + 1);
  return std::string(rest.substr(0, end)) + std::string(direct ? kDirect : "");
}

}  // namespace

std::vector<std::string> nccl_transports(std::string_view log) {
  std::set<std::string> ways;
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size() - 1);
    const std::string_view line = log.substr(0, end + 1);
    log.remove_prefix(end + 1);
    if (const std::size_t via = line.find(kVia); via != std::string_view::npos) {
      ways.insert(way_of(line.substr(via + kVia.size())));
    } else if (line.find("NVLS comm ") != std::string_view::npos) {
      ways.insert("NVLS");
    }
  }
  ways.erase("");
  return {ways.begin(), ways.end()};
}

std::string nccl_warnings(std::string_view log) {
  constexpr std::size_t kMost = 20;
  std::string warnings;
  for (std::size_t found = 0, at = log.find(kWarning); at != std::string_view::npos && found < kMost;
       at = log.find(kWarning, at + 1), ++found) {
    const std::size_t end = log.find_first_of("\r\n", at);
    warnings +=
        fmt::format("{}\n", printable(log.substr(at, end == std::string_view::npos ? end : end - at)));
  }
  return warnings;
}

NcclLog::NcclLog() {
  if (std::getenv("NCCL_DEBUG") != nullptr) return;
  const char* place = std::getenv("TMPDIR");
  // A name at which no link can exist yet.
  std::string folder = std::string(place == nullptr ? "/tmp" : place) + "/plumbline-nccl-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return;
  folder_ = folder;
  ::setenv("NCCL_DEBUG", "INFO", 1);
  ::setenv("NCCL_DEBUG_SUBSYS", "INIT", 1);
  ::setenv("NCCL_DEBUG_FILE", path().c_str(), 1);
}

NcclLog::~NcclLog() {
  if (folder_.empty()) return;
  if (std::uncaught_exceptions() > 0) say(warnings());
  std::remove(path().c_str());
  ::rmdir(folder_.c_str());
}

std::string NcclLog::text() const {
  if (folder_.empty()) return "";
  const std::ifstream file(path());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace plumbline
