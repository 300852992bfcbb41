// What mpirun starts in place of ssh: brings its daemon to another host, under a supervisor there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// A word as a shell takes it, whatever is in it.
std::string shell_word(std::string_view text);

/// The command that runs `remote`, a line for a shell, on `host`: the words of `agent`, in which "{host}"
/// stands for the host and the line follows for sh -c; without it host and line are added, as ssh takes them.
std::vector<std::string> agent_command(const std::string& agent, const std::string& host,
                                       const std::string& remote);

/// argv: program, kAgentArgument, host, words of the daemon's command. Ends with it; the daemon ends when
/// this process does. Returns its exit code.
int act_as_agent(int argc, char** argv);

}  // namespace plumbline
