// Hosts with the ranks that each takes, as Slurm, Open MPI's hostfiles and mpirun's --host write them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

struct Host {
  std::string name;
  int slots = 1;  // ranks that it takes
  bool operator==(const Host&) const = default;
};

/// Hosts of one job at most, and ranks of one host: a damaged list must not fill the memory.
inline constexpr int kMostHosts = 65'536;
inline constexpr int kMostSlots = 65'536;

/// "n[1-3,07],login" → n1, n2, n3, n07, login: Slurm's host list expressions, leading zeros kept, several
/// brackets in one name ("rack[0-1]n[1-2]") from left to right. `origin` stands for the variable in messages.
/// Throws InputError. Source: hostlist expressions of Slurm's manual, scontrol(1), show hostnames.
std::vector<std::string> expand_node_list(std::string_view text, const std::string& origin);

/// "2(x3),1" → 2, 2, 2, 1: Slurm's tasks per node. Throws InputError.
std::vector<int> expand_counts(std::string_view text, const std::string& origin);

/// Both put together, one host per count. Throws InputError when their numbers differ.
std::vector<Host> hosts_of_slurm(const std::string& nodes, const std::string& nodes_origin,
                                 const std::string& counts, const std::string& counts_origin);

/// The hosts of a hostfile as Open MPI 4 reads it: "NAME [slots=N] [max_slots=N]" or "NAME:N" a line, "#"
/// starts a comment; a repeated host gets the further slots. Without a number it has one slot. At least one
/// host. Throws InputError with file and line.
std::vector<Host> parse_hostfile(std::string_view text, const std::string& origin);

/// "a:2,b:2": the form of mpirun's --host.
std::string host_option(const std::vector<Host>& hosts);

/// This host's own name.
std::string this_host();

/// True if the name is this host's, with or without its domain.
bool is_this_host(const std::string& name);

/// Throws InputError when there are hosts and the first is not this one: rank 0 writes the results.
void require_first(const std::vector<Host>& hosts);

/// Ranks that all of them take.
int slots_of(const std::vector<Host>& hosts);

/// The hosts from the front that `ranks` need, the last with the remainder. Throws InputError when they take
/// fewer.
std::vector<Host> hosts_for(const std::vector<Host>& hosts, int ranks);

}  // namespace plumbline
