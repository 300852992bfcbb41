// A file is written whole or not at all, and what stands in the way is named in one line.
#include "core/base/atomic_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

class AtomicFile : public testing::Test {
 protected:
  AtomicFile()
      : folder_(fs::path(testing::TempDir()) / ("plumbline_atomic_file_test." + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~AtomicFile() override { fs::remove_all(folder_); }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  std::string read(const std::string& name) const { return read_text_file(at(name), 1 << 24); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static std::string complaint(const std::string& path, ExitCode code) {
    try {
      write_whole_file(path, "text", code);
    } catch (const InputError& error) {
      return std::string("InputError ") + error.what();
    } catch (const Error& error) {
      return "Error " + std::to_string(static_cast<int>(error.code())) + " " + error.what();
    }
    return "written";
  }
  fs::path folder_;
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

TEST_F(AtomicFile, TheTemporaryIsAlongside) {
  EXPECT_THAT(temporary_name(at("file")), StartsWith(at("file.")));
  EXPECT_EQ(fs::path(temporary_name(at("file"))).parent_path(), folder_);
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
    const std::string line = complaint(c.path, ExitCode::bad_input);
    EXPECT_THAT(line, StartsWith("InputError " + c.path + ": cannot be written: "));
    EXPECT_THAT(line, HasSubstr(std::strerror(c.error)));
    EXPECT_THAT(line, HasSubstr("; expected a path in a writable folder"));
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_THAT(complaint(c.path, ExitCode::rank_failed), StartsWith("Error 4 " + c.path));
  }
  EXPECT_EQ(read("file"), "kept");
  EXPECT_EQ(files(), 2U);
}

TEST_F(AtomicFile, AnUnwritableFolderKeepsWhatItHolds) {
  fs::create_directory(at("locked"));
  std::ofstream(at("locked/file")) << "kept";
  ASSERT_EQ(::chmod(at("locked").c_str(), 0555), 0);
  if (::geteuid() == 0) {  // root may write anywhere but where the kernel has no files to give
    EXPECT_THAT(complaint("/proc/self/plumbline", ExitCode::bad_input), StartsWith("InputError /proc/self/"));
  } else {
    EXPECT_THAT(complaint(at("locked/file"), ExitCode::bad_input), HasSubstr(std::strerror(EACCES)));
  }
  EXPECT_EQ(read("locked/file"), "kept");
  ASSERT_EQ(::chmod(at("locked").c_str(), 0755), 0);
}

TEST_F(AtomicFile, ADiskThatIsFullLeavesNothing) {
  // /dev/full takes every open and refuses every byte; a device is written where it is, and stays one.
  if (!fs::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  EXPECT_THAT(complaint("/dev/full", ExitCode::rank_failed), HasSubstr(std::strerror(ENOSPC)));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_FALSE(fs::exists(temporary_name("/dev/full")));
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
}  // namespace plumbline
