// The forbidden arrows between folders, held over every #include line of the project.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace plumbline {
namespace {

namespace fs = std::filesystem;

/// Files below `folder` (but not below what `except` matches) must not include what matches `forbidden`.
struct Rule {
  std::string folder;
  std::string except;
  std::string forbidden;
  std::string why;
};

const std::vector<Rule> kRules = {
    {"core", "", "(kernels|schedules|analysis|bench|tests)/", "core knows nobody"},
    {"core", "core/(backends|profile)/", "(mpi|nccl|cuda|cuda_runtime\\w*|cupti)\\.h",
     "transports live in core/backends, profilers in core/profile"},
    {"schedules", "", "(analysis|kernels|bench|tests)/", "schedules know only core"},
    {"schedules", "", "(mpi|nccl|cuda)\\w*\\.h", "schedules know only core"},
    {"analysis", "", "(kernels|bench|schedules|tests)/", "a prediction must not learn from what is measured"},
    {"analysis", "", "core/backends/|(mpi|nccl|cuda)\\w*\\.h", "analysis knows no transport"},
    {"kernels", "", "(schedules|analysis|bench|tests)/", "kernels know only core"},
    {"kernels", "", "core/backends/|(mpi|nccl)\\.h", "kernels know no transport"},
    {"bench", "", "tests/", "nothing uses tests"},
};

bool is_source(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".cpp" || extension == ".hpp" || extension == ".cu" || extension == ".cuh";
}

std::vector<std::string> violations(const Rule& rule, const std::string& name, std::istream& source) {
  static const std::regex include("^\\s*#\\s*include\\s*[<\"]([^>\"]+)[>\"]");
  const std::regex forbidden(fmt::format("^(?:{})", rule.forbidden));
  std::vector<std::string> found;
  std::string line;
  for (int number = 1; std::getline(source, line); ++number) {
    std::smatch match;
    if (!std::regex_search(line, match, include)) continue;
    const std::string target = match[1];
    if (std::regex_search(target, forbidden)) {
      found.push_back(fmt::format("{}:{}: includes {}: {}", name, number, target, rule.why));
    }
  }
  return found;
}

TEST(IncludeRules, NoForbiddenArrow) {
  const fs::path root = PLUMBLINE_SOURCE_DIR;
  int files = 0;
  for (const Rule& rule : kRules) {
    for (const auto& entry : fs::recursive_directory_iterator(root / rule.folder)) {
      const std::string name = fs::relative(entry.path(), root).string();
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      if (!rule.except.empty() &&
          std::regex_search(name, std::regex(rule.except), std::regex_constants::match_continuous)) {
        continue;
      }
      ++files;
      std::ifstream source(entry.path());
      for (const std::string& violation : violations(rule, name, source)) ADD_FAILURE() << violation;
    }
  }
  EXPECT_GT(files, 50) << "the rules looked at next to nothing";
}

TEST(IncludeRules, AForbiddenArrowIsSeen) {
  std::istringstream source("#pragma once\n#include \"core/base/units.hpp\"\n  # include <mpi.h>\n");
  const std::vector<std::string> found = violations(kRules[5], "analysis/x.hpp", source);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0], "analysis/x.hpp:3: includes mpi.h: analysis knows no transport");
}

}  // namespace
}  // namespace plumbline
