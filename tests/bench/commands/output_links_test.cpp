// Links in output folders, as a neighbour in a shared scratch folder could put them there.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::output_links_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kRun = std::string(kSmallRun) + "steps: 1\n";

class OutputLinks : public ProgramFolder {
 protected:
  OutputLinks() {
    write("run.yaml", kRun);
    fs::create_directory(folder_ / "victim");
    write("victim/file", "precious");
  }
  /// True while the neighbour's target is unchanged.
  bool untouched() const {
    return read("victim/file") == "precious" &&
           std::distance(fs::directory_iterator(folder_ / "victim"), {}) == 1;
  }
  void link(const std::string& target, const std::string& name) const {
    fs::create_directories((folder_ / name).parent_path());
    fs::create_symlink(folder_ / target, folder_ / name);
  }
};

struct LinkCase {
  const char* name;  // {} is the cell's id
  const char* target;
  const char* options;
  int exit_code;
};

TEST_F(OutputLinks, OfAMatrixLeadNowhere) {
  ASSERT_EQ(plumbline("matrix run.yaml --out first --quiet").exit_code, 0) << read("err.txt");
  const std::string id = nlohmann::json::parse(read("first/results.jsonl"))["id"];
  const LinkCase cases[] = {
      {"cells", "victim", "", 2},
      {"cells/{}.yaml", "victim/file", "", 2},
      {"cells/{}.yaml", "victim/new", "", 2},
      {"cells/{}.yaml.partial", "victim/file", "", 0},  // taken away
      {"cells/{}.measurement", "victim/file", "", 0},   // the same, before ranks start
      {"cells/{}.log", "victim/file", "--memory-budget 1KiB", 0},
      {"timelines", "victim", "", 2},
      {"timelines", "victim", "--predict-only", 2},
      {"timelines/{}.json", "victim/file", "", 2},
      {"timelines/{}.json", "victim/new", "--predict-only", 2},
      {"claims", "victim", "--share", 2},
      {"claims/{}", "victim/new", "--share", 2},
      {"results.jsonl", "victim/file", "", 2},
      {"results.jsonl.lock", "victim/new", "--share", 2},
  };
  for (const LinkCase& each : cases) {
    SCOPED_TRACE(each.name);
    fs::remove_all(folder_ / "out");
    link(each.target, fmt::format("out/{}", fmt::format(fmt::runtime(each.name), id)));
    const Said said = plumbline(fmt::format("matrix run.yaml --out out --quiet {}", each.options));
    EXPECT_EQ(said.exit_code, each.exit_code) << said.err;
    EXPECT_TRUE(untouched());
    if (said.exit_code == 2 && std::string(each.name).find("results") == std::string::npos) {
      EXPECT_THAT(said.err, HasSubstr("found a symbolic link"));
    }
  }
}

TEST_F(OutputLinks, OfOtherFoldersLeadNowhere) {
  link("victim/file", "weights/model.safetensors");
  EXPECT_EQ(plumbline("run run.yaml --save-weights weights").exit_code, 0) << read("err.txt");
  EXPECT_TRUE(untouched());
  fs::remove(folder_ / "weights/config.json");
  link("victim/file", "weights/config.json");
  EXPECT_EQ(plumbline("run run.yaml --save-weights weights").exit_code, 2) << read("err.txt");
  EXPECT_THAT(read("err.txt"), HasSubstr("weights/config.json: cannot be written: found a symbolic link"));
  EXPECT_TRUE(untouched());
  link("victim", "steps/iter_0000001.partial");
  EXPECT_EQ(plumbline("run run.yaml --checkpoint-dir steps --checkpoint-interval 1").exit_code, 0)
      << read("err.txt");
  EXPECT_TRUE(untouched());
  EXPECT_TRUE(fs::exists(folder_ / "steps/iter_0000001/metadata.json"));
  // A conversion that another user pretends to have begun.
  link("victim/file", "megatron.partial/conversion.json");
  ASSERT_EQ(plumbline("run run.yaml --save-weights whole").exit_code, 0) << read("err.txt");
  plumbline("convert whole megatron --tp 1");
  EXPECT_TRUE(untouched());
}

// A folder or a file that the user names may be a link: it is the user's.
TEST_F(OutputLinks, ThatAUserNamesAreFollowed) {
  fs::create_directory(folder_ / "real");
  fs::create_directory_symlink("real", folder_ / "out");
  EXPECT_EQ(plumbline("matrix run.yaml --out out --quiet").exit_code, 0) << read("err.txt");
  EXPECT_TRUE(fs::exists(folder_ / "real/results.jsonl"));
}

}  // namespace
}  // namespace plumbline::output_links_test
