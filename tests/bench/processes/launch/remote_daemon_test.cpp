// Orders to start mpirun's daemon: mpirun's text becomes a list, and nothing in it starts anything else.
#include "bench/processes/launch/remote_daemon.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace plumbline::remote_daemon_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Words = std::vector<std::string>;

// In the words of Open MPI 4.1, for users of bash, sh and csh, with and without its prefix.
TEST(RemoteDaemon, MpirunsWordsBecomeArguments) {
  const Words said = {"-mca",
                      "ess",
                      "\"env\"",
                      "-mca",
                      "ess_base_vpid",
                      "1",
                      "-mca",
                      "orte_hnp_uri",
                      "\"1270218752.0;tcp://192.0.2.2:51765\"",
                      "-mca",
                      "btl_tcp_if_include",
                      "\"\"q\" \\ $HOME; 'x' `y` )\""};
  const Words meant = {"-mca",
                       "ess",
                       "env",
                       "-mca",
                       "ess_base_vpid",
                       "1",
                       "-mca",
                       "orte_hnp_uri",
                       "1270218752.0;tcp://192.0.2.2:51765",
                       "-mca",
                       "btl_tcp_if_include",
                       "\"q\" \\ $HOME; 'x' `y` )"};
  const Words profile = {"(", "test", "!", "-r", "./.profile", "||", ".", "./.profile;"};
  const std::string prefix =
      "  PATH=/opt/bin:$PATH ; export PATH ; LD_LIBRARY_PATH=/opt/lib:${LD_LIBRARY_PATH:-} ; "
      "export LD_LIBRARY_PATH ;   /opt/bin/orted";
  const std::string csh = " set path = ( /opt/bin $path ) ; if ( $?X == 1 ) set Y ;  /opt/bin/orted";
  for (const Words& front : {Words{" orted"}, Words{"orted"}, Words{prefix}, Words{csh}}) {
    Words words = front;
    words.insert(words.end(), said.begin(), said.end());
    EXPECT_THAT(daemon_arguments(words), ElementsAreArray(meant)) << front.front();
    words.insert(words.begin(), profile.begin(), profile.end());
    words.emplace_back(")");
    EXPECT_THAT(daemon_arguments(words), ElementsAreArray(meant)) << front.front();
  }
  for (const Words& other :
       {Words{"rm", "-rf", "/"}, Words{"/tmp/ortedx"}, Words{"sh", "-c", "orted; rm x"}, Words{}}) {
    EXPECT_THAT([&] { daemon_arguments(other); }, ThrowsMessage<Error>(HasSubstr("expected orted")));
  }
}

TEST(RemoteDaemon, OrdersAreNumbersAndArguments) {
  const DaemonOrder order{3, 2, 300'000, {"-mca", "a", "b c;d", ""}};
  EXPECT_EQ(order_of(words_of(order)), order);
  EXPECT_EQ(order_of({"1", "1", "1"}), (DaemonOrder{1, 1, 1, {}}));
  const Words bad[] = {{},
                       {"1", "1"},
                       {"0", "1", "1"},
                       {"-1", "1", "1"},
                       {"1", "1e3", "1"},
                       {"1", "", "1"},
                       {"1", "1", "1x"},
                       {"1", "1", " 1"},
                       {"99999999999999999999", "1", "1"},
                       {"1;id", "1", "1"},
                       {"sh", "-c", "id"},
                       {"1", "1", "1", "a\nb"},
                       {"1", "1", "1", std::string("a\0b", 3)},
                       {"1", "1", "1", "\x1b[2J"},
                       Words(5000, "1")};
  for (const Words& words : bad) {
    EXPECT_THROW(order_of(words), Error) << fmt::format("{}", fmt::join(words, " ")).substr(0, 100);
  }
}

class Orders : public ::testing::Test {
 protected:
  Orders() {
    folder_ = mkdtemp(folder_.data());
    // It writes the list of its arguments, one a line.
    program("orted", "for word; do printf '%s\\n' \"$word\"; done >\"$OUT\"");
    setenv("OUT", (folder_ + "/started").c_str(), 1);
    path_ = std::getenv("PATH");
    setenv("PATH", (folder_ + ":" + path_).c_str(), 1);
  }
  ~Orders() override {
    setenv("PATH", path_.c_str(), 1);
    unsetenv("OUT");
    fs::remove_all(folder_);
  }
  void program(const std::string& name, const std::string& does) const {
    std::ofstream(folder_ + "/" + name) << "#!/bin/sh\n" << does << "\n";
    fs::permissions(folder_ + "/" + name, fs::perms::owner_all);
  }
  /// Exit code of the supervisor for these words; orted's arguments are in "started".
  int supervise(Words words) const {
    words.insert(words.begin(), {FAKE_RANKS, "--plumbline-daemon"});
    std::vector<char*> command;
    for (std::string& word : words) command.push_back(word.data());
    command.push_back(nullptr);
    int held[2] = {-1, -1};  // its owner, until it ends
    if (pipe(held) != 0) return -1;
    const pid_t process = fork();
    if (process == 0) {
      dup2(held[0], STDIN_FILENO);
      close(held[1]);
      if (chdir(folder_.c_str()) != 0) _exit(126);
      if (freopen("err.txt", "w", stderr) == nullptr) _exit(126);
      execv(command[0], command.data());
      _exit(127);
    }
    int status = 0;
    waitpid(process, &status, 0);
    close(held[0]);
    close(held[1]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string read(const std::string& name) const {
    std::ifstream in(folder_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string folder_ = (fs::temp_directory_path() / "remote_daemon_test_XXXXXX").string();
  std::string path_;
};

TEST_F(Orders, StartThisHostsDaemonWithTheirArguments) {
  EXPECT_EQ(own_daemon(), folder_ + "/orted");
  const Words hostile[] = {{"-mca", "ess", "env"},
                           {"; touch stolen;", "$(touch stolen)", "`touch stolen`", "|", "touch stolen"},
                           {"&&", "touch", "stolen"},
                           {"/tmp/other/orted", "--help", "", "'", "\""},
                           {"> stolen", "*", "~"}};
  for (const Words& arguments : hostile) {
    EXPECT_EQ(supervise(words_of({1, 1, 20'000, arguments})), 0) << read("err.txt");
    EXPECT_EQ(read("started"), fmt::format("{}\n", fmt::join(arguments, "\n")));
    EXPECT_FALSE(fs::exists(folder_ + "/stolen")) << arguments.front();
    fs::remove(folder_ + "/started");
  }
}

TEST_F(Orders, ThatAreNoneStartNothing) {
  for (const Words& words : {Words{"1", "1", "20000;touch stolen"}, Words{"sh", "-c", "touch stolen"},
                             Words{"1", "1", "20000", "a\ntouch stolen"}, Words{}}) {
    EXPECT_EQ(supervise(words), 1);
    EXPECT_THAT(read("err.txt"), HasSubstr("order to start a daemon: found"));
    EXPECT_FALSE(fs::exists(folder_ + "/started"));
    EXPECT_FALSE(fs::exists(folder_ + "/stolen"));
  }
}

}  // namespace
}  // namespace plumbline::remote_daemon_test
