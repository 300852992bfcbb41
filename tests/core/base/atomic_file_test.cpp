// A file is written whole or not at all, and an obstacle is named in one line.
#include "core/base/atomic_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/text_input.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::atomic_file_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

class AtomicFile : public testing::Test, protected test::TemporaryFolder {
 protected:
  std::string read(const std::string& name) const { return read_text_file(at(name), 1 << 24); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static std::string complaint(const std::string& path, const std::string& text = "text") {
    try {
      write_whole_file(path, text);
    } catch (const OutputError& error) {
      EXPECT_EQ(error.code(), ExitCode::rank_failed);
      return error.what();
    }
    return "written";
  }
};

TEST_F(AtomicFile, IsWrittenAndReplacedWhole) {
  const std::string large(3'000'000, 'x');
  for (const std::string& text :
       {std::string("first\n"), large, std::string("\0\r\n\xff", 4), std::string()}) {
    write_whole_file(at("file"), text);
    EXPECT_EQ(read("file"), text);
    EXPECT_EQ(files(), 1U);  // nothing is left alongside
  }
}

TEST_F(AtomicFile, ThePartialFileIsAlongsideUntilItIsWhole) {
  {
    PartialFile partial(at("file"));
    EXPECT_EQ(partial.name(), at("file.partial"));
    ASSERT_EQ(::write(partial.descriptor(), "text", 4), 4);
    EXPECT_FALSE(fs::exists(at("file")));
    partial.commit();
    EXPECT_EQ(partial.descriptor(), -1);
  }
  EXPECT_EQ(read("file"), "text");
  { const PartialFile abandoned(at("file")); }
  EXPECT_EQ(read("file"), "text");
  EXPECT_EQ(files(), 1U);
}

TEST_F(AtomicFile, WhatAKilledWriterLeavesGoesWithTheNext) {
  const auto die_writing = [&] {
    const pid_t writer = ::fork();
    if (writer == 0) {
      const PartialFile partial(at("file"));
      _exit(::write(partial.descriptor(), "half", 4) == 4 ? 0 : 1);  // no destructor
    }
    int status = 0;
    ::waitpid(writer, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(fs::exists(at("file.partial")));
  };
  die_writing();
  write_whole_file(at("file"), "whole");
  EXPECT_EQ(read("file"), "whole");
  EXPECT_EQ(files(), 1U);
  die_writing();
  remove_with_partial(at("file"));
  EXPECT_EQ(files(), 0U);
  remove_with_partial(at("file"));  // nothing to do
}

TEST_F(AtomicFile, TwoWritersAtOnceDoNotMeet) {
  PartialFile slow(at("file"));
  ASSERT_EQ(::write(slow.descriptor(), "slow", 4), 4);
  write_whole_file(at("file"), "quick");
  remove_with_partial(at("other"));
  EXPECT_EQ(read("file"), "quick");
  slow.commit();
  EXPECT_EQ(read("file"), "slow");
  EXPECT_EQ(files(), 1U);
}

TEST_F(AtomicFile, WhatIsInTheWayIsNotFollowed) {
  std::ofstream(at("precious")) << "kept";
  fs::create_symlink(at("precious"), at("file.partial"));
  write_whole_file(at("file"), "text");
  EXPECT_EQ(read("file"), "text");
  EXPECT_EQ(read("precious"), "kept");
}

TEST_F(AtomicFile, SaysWhatStandsInTheWay) {
  std::ofstream(at("file")) << "kept";
  fs::create_directory(at("folder"));
  struct Case {
    std::string path;
    int error;
  };
  const Case cases[] = {
      {at("no/such/folder"), ENOENT},
      {at("file/inside"), ENOTDIR},
      {at("folder"), EISDIR},
      {at(std::string(300, 'x')), ENAMETOOLONG},
      {"", ENOENT},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.path);
    const std::string line = complaint(c.path);
    EXPECT_THAT(line, StartsWith(c.path + ": cannot be written: "));
    EXPECT_THAT(line, HasSubstr(std::strerror(c.error)));
    EXPECT_THAT(line, HasSubstr("; expected a path in a writable folder"));
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
  EXPECT_EQ(read("file"), "kept");
  EXPECT_EQ(files(), 2U);
}

TEST_F(AtomicFile, AnUnwritableFolderKeepsWhatItHolds) {
  fs::create_directory(at("locked"));
  std::ofstream(at("locked/file")) << "kept";
  ASSERT_EQ(::chmod(at("locked").c_str(), 0555), 0);
  if (::geteuid() == 0) {  // root may write anywhere but where the kernel has no files to give
    EXPECT_THAT(complaint("/proc/self/plumbline"), StartsWith("/proc/self/"));
  } else {
    EXPECT_THAT(complaint(at("locked/file")), HasSubstr(std::strerror(EACCES)));
  }
  EXPECT_EQ(read("locked/file"), "kept");
  ASSERT_EQ(::chmod(at("locked").c_str(), 0755), 0);
}

TEST_F(AtomicFile, ADiskThatIsFullLeavesNothing) {
  // /dev/full takes every open and refuses every byte; a device is written where it is, and stays one.
  if (!fs::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  EXPECT_THAT(complaint("/dev/full"), HasSubstr(std::strerror(ENOSPC)));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_FALSE(fs::exists("/dev/full.partial"));
}

TEST_F(AtomicFile, AFileThatWouldBeTooLargeLeavesNothing) {
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit small = before;
  small.rlim_cur = 1000;
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);  // as in prepare_standard_streams()
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  write_whole_file(at("small"), "text");
  const std::string line = complaint(at("file"), std::string(5000, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(line, HasSubstr(std::strerror(EFBIG)));
  EXPECT_EQ(files(), 1U);
}

TEST_F(AtomicFile, LinksAndPipesStayWhatTheyAre) {
  std::ofstream(at("target")) << "old and longer";
  fs::create_symlink(at("target"), at("link"));
  write_whole_file(at("link"), "new");
  EXPECT_TRUE(fs::is_symlink(at("link")));
  EXPECT_EQ(read("target"), "new");

  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { std::getline(std::ifstream(at("pipe")), received, '\0'); });
  write_whole_file(at("pipe"), "through");
  reader.join();
  EXPECT_EQ(received, "through");
  EXPECT_TRUE(fs::is_fifo(at("pipe")));
}

}  // namespace
}  // namespace plumbline::atomic_file_test
