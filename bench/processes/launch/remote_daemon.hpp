// mpirun's daemon on another host: the order to start it, as a list of arguments. No shell reads it, and the
// started program is always that host's own orted.
#pragma once

#include <string>
#include <vector>

namespace plumbline {

struct DaemonOrder {
  int slots = 1;    // ranks of the host
  int threads = 1;  // of each of them
  long long limit_ms = 0;
  std::vector<std::string> arguments;  // of orted

  bool operator==(const DaemonOrder&) const = default;
};

/// The arguments of orted, out of those that mpirun gives to a replacement of ssh. These are statements for
/// the remote shell, orted's name, its arguments with each value in double quotes. Throws Error when they
/// start something else.
std::vector<std::string> daemon_arguments(const std::vector<std::string>& from_mpirun);

/// As words of a command line, and back. Throws Error when they are no order.
std::vector<std::string> words_of(const DaemonOrder& order);
DaemonOrder order_of(const std::vector<std::string>& words);

/// Path of this host's orted: of PATH, else next to the mpirun that this program was built with. Throws Error
/// when there is none.
std::string own_daemon();

}  // namespace plumbline
