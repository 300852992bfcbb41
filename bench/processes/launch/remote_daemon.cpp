// From mpirun's words to orted's arguments.
#include "bench/processes/launch/remote_daemon.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "bench/processes/hosts/variables.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kDaemonProgram = "orted";
constexpr int kMostSlots = 1 << 20;
constexpr int kMostThreads = 1 << 16;
constexpr long long kMostLimitMs = 1LL << 50;
constexpr std::size_t kNumbers = 3;
constexpr std::size_t kMostArguments = 4096;

/// The word without the one pair of double quotes that mpirun puts around values; it escapes nothing.
std::string unquoted(std::string_view word) {
  const bool quoted = word.size() >= 2 && word.front() == '"' && word.back() == '"';
  return std::string(quoted ? word.substr(1, word.size() - 2) : word);
}

/// "...; /usr/bin/orted": the last word of a text, without its folder.
std::string_view last_program(std::string_view text) {
  const std::size_t begin = text.find_last_of(" /");
  return begin == std::string_view::npos ? text : text.substr(begin + 1);
}

template <typename Number>
Number number_in(const std::string& word, Number most) {
  Number number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{} || end != word.data() + word.size() || number < 1 || number > most) {
    throw Error(fmt::format("order to start a daemon: found \"{}\", expected a number from 1 to {}",
                            printable(word), most));
  }
  return number;
}

/// True for a control character, which no value of a parameter has; a zero byte would end it.
bool has_control(const std::string& word) {
  return std::any_of(word.begin(), word.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

bool is_program(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::vector<std::string> daemon_arguments(const std::vector<std::string>& from_mpirun) {
  const auto program = std::find_if(from_mpirun.begin(), from_mpirun.end(), [](const std::string& word) {
    return last_program(word) == kDaemonProgram;
  });
  if (program == from_mpirun.end()) {
    throw Error(fmt::format("mpirun starts \"{}\" on another host, expected {}; unset orte_launch_agent",
                            printable(fmt::format("{}", fmt::join(from_mpirun, " "))), kDaemonProgram));
  }
  std::vector<std::string> arguments;
  for (auto word = program + 1; word != from_mpirun.end(); ++word) arguments.push_back(unquoted(*word));
  // "( ./.profile; orted ... )": for sh and ksh.
  if (from_mpirun.front() == "(" && !arguments.empty() && arguments.back() == ")") arguments.pop_back();
  return arguments;
}

std::vector<std::string> words_of(const DaemonOrder& order) {
  std::vector<std::string> words = {std::to_string(order.slots), std::to_string(order.threads),
                                    std::to_string(order.limit_ms)};
  words.insert(words.end(), order.arguments.begin(), order.arguments.end());
  return words;
}

DaemonOrder order_of(const std::vector<std::string>& words) {
  if (words.size() < kNumbers || words.size() > kNumbers + kMostArguments) {
    throw Error(
        fmt::format("order to start a daemon: found {} words, expected {} numbers and at most {} arguments",
                    words.size(), kNumbers, kMostArguments));
  }
  DaemonOrder order;
  order.slots = number_in(words[0], kMostSlots);
  order.threads = number_in(words[1], kMostThreads);
  order.limit_ms = number_in(words[2], kMostLimitMs);
  order.arguments.assign(words.begin() + kNumbers, words.end());
  const auto bad = std::find_if(order.arguments.begin(), order.arguments.end(), has_control);
  if (bad != order.arguments.end()) {
    throw Error(fmt::format("order to start a daemon: found \"{}\", expected no control characters",
                            printable(*bad)));
  }
  return order;
}

std::string own_daemon() {
  std::string folders = process_variables()("PATH").value_or("");
  folders += std::string(folders.empty() ? "" : ":") + PLUMBLINE_MPI_FOLDER;
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    std::string path = fmt::format("{}/{}", folders.substr(begin, end - begin), kDaemonProgram);
    if (path.front() == '/' && end > begin && is_program(path)) return path;
    begin = end + 1;
  }
  throw Error(fmt::format("{} is not in PATH; install Open MPI (Debian: openmpi-bin)", kDaemonProgram));
}

}  // namespace plumbline
