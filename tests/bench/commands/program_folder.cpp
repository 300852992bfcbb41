#include "tests/bench/commands/program_folder.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>

namespace plumbline {

ProgramFolder::ProgramFolder() {
  std::filesystem::create_directory(folder_ / "tmp");
}

std::string ProgramFolder::environment() const {
  return fmt::format("cd {0} && export HOME={0} XDG_CACHE_HOME= TMPDIR={0}/tmp && ", folder_.string());
}

ProgramFolder::Said ProgramFolder::plumbline(const std::string& arguments, const std::string& before) const {
  // exec: the shell would turn a signal into an exit code. Redirections in `arguments` come last and take
  // effect.
  const std::string line = fmt::format("{} {} exec >out.txt 2>err.txt; exec {} {}", environment(), before,
                                       PLUMBLINE_PROGRAM, arguments);
  const int status = std::system(line.c_str());
  Said said;
  said.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  if (WIFEXITED(status) && WEXITSTATUS(status) > 128) said.exit_code = 1000 + WEXITSTATUS(status) - 128;
  said.out = read("out.txt");
  said.err = read("err.txt");
  return said;
}

nlohmann::json ProgramFolder::json_of(const std::string& arguments) const {
  const Said said = plumbline(arguments);
  EXPECT_EQ(said.exit_code, 0) << arguments << said.err;
  return nlohmann::json::parse(said.out);
}

}  // namespace plumbline
