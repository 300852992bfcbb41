// Agent that mpirun starts in place of ssh: brings its daemon to another host, under a supervisor there.
#pragma once

#include <string>
#include <vector>

namespace plumbline {

/// The command that runs the words of `remote` on `host`: the words of `agent`, in which "{host}" stands for
/// the host and which those of `remote` follow. Without "{host}" the host and one line for the shell there
/// follow, as ssh takes them.
std::vector<std::string> agent_command(const std::string& agent, const std::string& host,
                                       const std::vector<std::string>& remote);

/// argv: program, kAgentArgument, host, words of the daemon's command. Ends with it; the daemon ends when
/// this process does. Returns its exit code.
int act_as_agent(int argc, char** argv);

}  // namespace plumbline
