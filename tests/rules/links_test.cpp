// Targets of a source's page must exist: relative links, and paths in `code marks`.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace plumbline::links_test {
namespace {

namespace fs = std::filesystem;

struct Tree {
  std::vector<fs::path> pages;  // every .md, relative to the root
  std::set<std::string> names;  // every file name
};

Tree read_tree(const fs::path& root) {
  Tree tree;
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::recursive_directory_iterator();
       ++entry) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory()) {
      const bool made = name == "build" || name == "local" || name == "third_party";
      if (made || (name.starts_with(".") && name != ".ci")) entry.disable_recursion_pending();
      continue;
    }
    tree.names.insert(name);
    if (entry->path().extension() == ".md") tree.pages.push_back(fs::relative(entry->path(), root));
  }
  return tree;
}

/// `NAME.csv`, `DIR/cells/ID.log`: capitals stand for a reader's own value.
bool has_placeholder(const std::string& path) {
  static const std::regex capitals("(^|_)[A-Z]{2,}(_|$)");
  for (const fs::path& part : fs::path(path)) {
    const std::string word = part.stem().string();
    if (word == "README" || word == "CONTRIBUTING" || word == "CHANGELOG") continue;
    if (std::regex_search(word, capitals)) return true;
  }
  return false;
}

struct Link {
  std::string path;     // empty: this page
  std::string section;  // "the-map"; empty: the page
};

/// Targets of [text](target) within the sources.
std::vector<Link> relative_links(const std::string& text) {
  static const std::regex link(R"(\]\(([^)#\s]*)(#([^)\s]*))?\))");
  std::vector<Link> found;
  for (std::sregex_iterator match(text.begin(), text.end(), link), end; match != end; ++match) {
    const std::string target = (*match)[1];
    if (target.find("://") == std::string::npos) found.push_back({target, (*match)[3]});
  }
  return found;
}

/// "## The map" of the page is its section "the-map".
bool has_section(const std::string& text, const std::string& section) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#")) continue;
    std::string name;
    for (const char c : line.substr(std::min(line.find_first_not_of("# "), line.size()))) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == ' ') name += '-';
      if (std::isalnum(byte) != 0 || c == '-' || c == '_') name += static_cast<char>(std::tolower(byte));
    }
    if (name == section) return true;
  }
  return false;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Files and folders named in code marks: with a folder (`a/b.yaml`, `a/b/`), or the bare name of a source
/// file. Files made only by a build or a run (`build/...`, `*.json`) are not looked for.
std::vector<std::string> mentioned_paths(const std::string& text) {
  static const std::regex mark("`([^`\\n]+)`");
  static const std::regex with_folder(
      R"(([\w.-]+/)+([\w.-]+\.(cpp|hpp|cu|cuh|inc|cmake|txt|md|py|sh|js|css|yaml|json|csv))?)");
  static const std::regex bare(R"([\w-]+\.(cpp|hpp|cu|cuh|inc|cmake|py|sh|js|css))");
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), mark), end; match != end; ++match) {
    const std::string path = (*match)[1];
    if (path.starts_with("build/") || has_placeholder(path)) continue;
    if (std::regex_match(path, with_folder) || std::regex_match(path, bare)) found.push_back(path);
  }
  return found;
}

/// One line for each target of the page that does not exist. Paths start at the page's folder or at the root.
std::vector<std::string> missing(const fs::path& root, const Tree& tree, const fs::path& page,
                                 const std::string& text) {
  std::vector<std::string> found;
  const fs::path folder = root / page.parent_path();
  for (const auto& [path, section] : relative_links(text)) {
    const fs::path target = path.empty() ? root / page : folder / path;
    if (!fs::exists(target)) {
      found.push_back(fmt::format("{}: no {} to link to", page.string(), path));
    } else if (!section.empty() && !has_section(text_of(target), section)) {
      found.push_back(fmt::format("{}: no section {} in {}", page.string(), section, path));
    }
  }
  for (const std::string& path : mentioned_paths(text)) {
    const bool known = path.find('/') == std::string::npos
                           ? tree.names.count(path) > 0
                           : fs::exists(folder / path) || fs::exists(root / path);
    if (!known) found.push_back(fmt::format("{}: there is no {}", page.string(), path));
  }
  return found;
}

TEST(Links, EveryPagePointsToWhatExists) {
  const fs::path root = PLUMBLINE_SOURCE_DIR;
  const Tree tree = read_tree(root);
  std::size_t targets = 0;
  for (const fs::path& page : tree.pages) {
    const std::string text = text_of(root / page);
    targets += relative_links(text).size() + mentioned_paths(text).size();
    for (const std::string& line : missing(root, tree, page, text)) ADD_FAILURE() << line;
  }
  EXPECT_GT(targets, 100U) << "the rule looked at next to nothing";
}

TEST(Links, EveryFolderOfTheTreeHasALineInItsReadme) {
  const fs::path root = PLUMBLINE_SOURCE_DIR;
  for (const std::string top : {"core", "kernels", "schedules", "analysis", "bench", "results", "tests"}) {
    const std::string text = text_of(root / top / "README.md");
    for (const auto& entry : fs::directory_iterator(root / top)) {
      const std::string name = entry.path().filename().string();
      if (!entry.is_directory() || name == "local" || name.starts_with(".") || name.starts_with("__"))
        continue;
      EXPECT_NE(text.find('`' + name + '/'), std::string::npos)
          << top << "/README.md says nothing of " << name << '/';
    }
  }
}

TEST(Links, TheMapNamesEveryRoomAndNothingElse) {
  const fs::path root = PLUMBLINE_SOURCE_DIR;
  const std::string text = text_of(root / "README.md");
  const std::size_t begin = text.find("```text", text.find("## The map"));
  ASSERT_NE(begin, std::string::npos);
  std::istringstream lines(text.substr(begin, text.find("```\n", begin + 3) - begin));
  std::set<std::string> named;
  std::string top;
  for (std::string line; std::getline(lines, line);) {
    const bool inner = line.starts_with("  ");
    std::istringstream words(line);
    for (std::string word; words >> word && word.ends_with("/");) {
      if (!inner) top = word;
      named.insert(inner ? top + word : word);
    }
  }
  for (const std::string& folder : named) EXPECT_TRUE(fs::is_directory(root / folder)) << folder;
  for (const std::string top_folder : {"core/", "analysis/", "bench/"}) {
    for (const auto& entry : fs::directory_iterator(root / top_folder)) {
      if (!entry.is_directory()) continue;
      EXPECT_EQ(named.count(top_folder + entry.path().filename().string() + '/'), 1U) << entry.path();
    }
  }
}

TEST(Links, WhatIsMissingIsSeen) {
  const fs::path root = PLUMBLINE_SOURCE_DIR;
  Tree tree;
  tree.names = {"arena.hpp"};
  const std::string text =
      "[here](../CMakeLists.txt) [map](../README.md#the-map) [no map](../README.md#no-map) "
      "[gone](gone.md#part) [web](https://example.org/x.md)\n"
      "`arena.hpp` `arena.cpp` `core/tensor/` `tensor/arena.hpp` `core/tensor/gone.hpp` `NAME_command.cpp` "
      "`DIR/x.json`\n";
  const std::vector<std::string> expected = {
      "core/README.md: no section no-map in ../README.md", "core/README.md: no gone.md to link to",
      "core/README.md: there is no arena.cpp", "core/README.md: there is no core/tensor/gone.hpp"};
  EXPECT_EQ(missing(root, tree, "core/README.md", text), expected);
}

}  // namespace
}  // namespace plumbline::links_test
