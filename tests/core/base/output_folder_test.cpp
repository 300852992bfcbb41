// Folders that commands fill, with files that others may have put into them.
#include "core/base/output_folder.hpp"
#include "tests/support/temporary_folder.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace plumbline::output_folder_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class OutputFolders : public ::testing::Test, protected test::TemporaryFolder {
 protected:
  OutputFolders() {
    fs::create_directories(folder_ / "out");
    fs::create_directories(folder_ / "victim");
    write("victim/file", "precious");
  }
};

TEST_F(OutputFolders, AreFilledAndEmptied) {
  const OutputFolder cells = OutputFolder::make(at("out/cells"));
  cells.write("a.yaml", "one");
  cells.write("a.yaml", "two");
  EXPECT_EQ(read("out/cells/a.yaml"), "two");
  cells.remove("a.yaml");
  cells.remove("never there");
  EXPECT_TRUE(fs::is_empty(at("out/cells")));
  const int lock = cells.open_file("lock", O_RDWR);
  EXPECT_GE(lock, 0);
  close(lock);
  OutputFolder::make(at("out/cells")).write("b", "again");
  EXPECT_EQ(read("out/cells/b"), "again");
}

TEST_F(OutputFolders, MayBeLinksWhereAUserNamesThem) {
  fs::create_directory_symlink("out", at("link"));
  OutputFolder::named(at("link")).write("a", "b");
  OutputFolder::make(at("link/cells")).write("a", "b");
  EXPECT_EQ(read("out/a"), "b");
  EXPECT_EQ(read("out/cells/a"), "b");
}

TEST_F(OutputFolders, AreNoLinksWhereTheProgramMakesThem) {
  for (const char* target : {"../victim", "../missing"}) {
    fs::create_directory_symlink(target, at("out/cells"));
    for (const auto opened : {OutputFolder::make, OutputFolder::made}) {
      EXPECT_THAT(
          [&] { opened(at("out/cells")); },
          ThrowsMessage<InputError>(HasSubstr("out/cells: cannot be written: found a symbolic link")));
    }
    fs::remove(at("out/cells"));
  }
  write("out/cells", "a file");
  EXPECT_THAT([&] { OutputFolder::make(at("out/cells")); },
              ThrowsMessage<OutputError>(HasSubstr("out/cells: cannot be written: Not a directory")));
  EXPECT_THROW(OutputFolder::make(at("out/missing/cells")), OutputError);
  EXPECT_THROW(OutputFolder::named(at("missing")), OutputError);
  EXPECT_EQ(read("victim/file"), "precious");
}

TEST_F(OutputFolders, WriteToNothingButTheirOwnFiles) {
  const struct {
    const char* what;
    const char* link;  // to it; nullptr: a pipe
    const char* found;
  } places[] = {{"to a file", "../victim/file", "a symbolic link"},
                {"to a new file", "../victim/new", "a symbolic link"},
                {"to a folder", "../victim", "a symbolic link"},
                {"to itself", "a", "a symbolic link"},
                {"to a device", "/dev/null", "a symbolic link"},
                {"a pipe", nullptr, "no regular file"}};
  const OutputFolder out = OutputFolder::named(at("out"));
  for (const auto& place : places) {
    SCOPED_TRACE(place.what);
    if (place.link == nullptr) {
      mkfifo(at("out/a").c_str(), 0600);
    } else {
      fs::create_symlink(place.link, at("out/a"));
    }
    EXPECT_THAT([&] { out.write("a", "stolen"); }, ThrowsMessage<InputError>(HasSubstr(place.found)));
    EXPECT_THROW(out.check("a"), InputError);
    if (place.link != nullptr) {
      EXPECT_THROW(out.open_file("a", O_RDWR), InputError);
    }
    out.remove("a");
    EXPECT_FALSE(fs::exists(fs::symlink_status(at("out/a"))));
    EXPECT_EQ(read("victim/file"), "precious");
    EXPECT_FALSE(fs::exists(at("victim/new")));
  }
}

TEST_F(OutputFolders, LinksAtTheNameOfAFileOnItsWayAreNotFollowed) {
  const OutputFolder out = OutputFolder::named(at("out"));
  fs::create_symlink("../victim/file", at("out/a.partial"));
  out.write("a", "ours");
  EXPECT_EQ(read("out/a"), "ours");
  EXPECT_EQ(read("victim/file"), "precious");
}

// Somebody swaps the folder for a link while it is filled.
TEST_F(OutputFolders, StayThemselvesWhenTheirNameGoesElsewhere) {
  const OutputFolder cells = OutputFolder::make(at("out/cells"));
  fs::rename(at("out/cells"), at("moved"));
  fs::create_directory_symlink("../victim", at("out/cells"));
  cells.write("file", "ours");
  cells.remove("other");
  EXPECT_EQ(read("moved/file"), "ours");
  EXPECT_EQ(read("victim/file"), "precious");
}

}  // namespace
}  // namespace plumbline::output_folder_test
