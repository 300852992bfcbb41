#include "tests/bench/commands/program_folder.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <system_error>

namespace plumbline {

namespace fs = std::filesystem;

ProgramFolder::ProgramFolder() {
  std::string pattern = (fs::temp_directory_path() / "plumbline-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::system_error(errno, std::generic_category(), pattern);
  folder_ = pattern;
  fs::create_directory(folder_ / "tmp");
}

ProgramFolder::~ProgramFolder() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void ProgramFolder::write(const std::string& name, const std::string& text) const {
  std::ofstream(folder_ / name, std::ios::binary) << text;
}

std::string ProgramFolder::read(const std::string& name) const {
  std::ifstream in(folder_ / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
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

}  // namespace plumbline
