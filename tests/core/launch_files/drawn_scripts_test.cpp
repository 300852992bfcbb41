// Drawn launch scripts run in bash with a pretended torchrun: their arguments are read as bash passes them,
// or refused. PLUMBLINE_DRAWN_SCRIPTS="300 7" draws 300 scripts with seed 7.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/launch_files/megatron/megatron_script.hpp"
#include "tests/core/launch_files/drawn_scripts.hpp"

namespace plumbline::drawn_scripts_test {
namespace {

namespace fs = std::filesystem;

/// Flags that a launch has an effect of, with their values; other values may be unknown.
const std::set<std::string> kEffective = {"--num-layers",
                                          "--hidden-size",
                                          "--tensor-model-parallel-size",
                                          "--pipeline-model-parallel-size",
                                          "--micro-batch-size",
                                          "--context-parallel-size",
                                          "--bf16"};

struct Read {
  std::string refusal;
  FoundArguments found;
};

Read read(const std::string& script, const std::string& name) {
  const OtherFile other = [](const std::string& path) -> std::optional<std::string> {
    const auto found = test::sourced_files().find(fs::path(path).filename().string());
    return found == test::sourced_files().end() ? std::nullopt : std::optional(found->second);
  };
  try {
    std::optional<FoundArguments> found = arguments_of_script(script, name, other);
    if (!found) return {"no training command", {}};
    for (const LaunchArgument& argument : found->arguments)
      if (!argument.known && kEffective.contains(argument.name))
        return {argument.name + ": " + argument.unknown_reason, {}};
    return {"", std::move(*found)};
  } catch (const InputError& error) {
    return {error.what(), {}};
  }
}

using Flags = std::vector<std::pair<std::string, std::vector<std::string>>>;

std::string shown(const Flags& flags) {
  std::string text;
  for (const auto& [flag, values] : flags) {
    text += " " + flag;
    for (const std::string& value : values) text += " [" + value + "]";
  }
  return text;
}

/// Flags of the program behind its .py file.
Flags flags_of(const std::vector<std::string>& words) {
  Flags flags;
  bool program = false;
  for (const std::string& word : words) {
    if (program && word.size() > 3 && word.starts_with("--")) {
      const std::size_t equals = word.find('=');
      flags.push_back({word.substr(0, equals), {}});
      if (equals != std::string::npos) flags.back().second.push_back(word.substr(equals + 1));
    } else if (program && !flags.empty()) {
      flags.back().second.push_back(word);
    }
    program = program || word.ends_with(".py");
  }
  return flags;
}

std::int64_t gpus_of(const std::vector<std::string>& words) {
  std::int64_t gpus = 1;
  for (std::size_t i = 0; i < words.size() && !words[i].ends_with(".py"); ++i) {
    for (const std::string flag : {"--nproc_per_node", "--nnodes"}) {
      if (words[i].starts_with(flag + "=")) gpus *= std::atol(words[i].c_str() + flag.size() + 1);
      if (words[i] == flag) gpus *= std::atol(words[i + 1].c_str());
    }
  }
  return gpus;
}

/// The difference between what was read and a launch by bash; empty: none.
std::string difference(const FoundArguments& found, const std::vector<std::string>& launched) {
  Flags expected = flags_of(launched);
  Flags flags;
  for (const LaunchArgument& argument : found.arguments) flags.push_back({argument.name, argument.values});
  for (std::size_t i = 0; i < flags.size() && i < expected.size(); ++i)
    if (!found.arguments[i].known) expected[i].second = flags[i].second;
  if (flags != expected) return fmt::format("read{}\nbash{}", shown(flags), shown(expected));
  const std::int64_t world = found.launcher.world_size;
  if (world != 0 && world != gpus_of(launched))
    return fmt::format("read {} GPUs, bash {}", world, gpus_of(launched));
  return "";
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

/// Words of each start of torchrun: each ends with NUL, a start with \x1 and NUL.
std::vector<std::vector<std::string>> launches(const fs::path& record) {
  std::ifstream file(record, std::ios::binary);
  std::vector<std::vector<std::string>> found;
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) {
    if (word == "\x1") {
      found.push_back(std::move(words));
      words.clear();
    } else {
      words.push_back(std::move(word));
    }
  }
  return found;
}

TEST(DrawnScripts, AreReadAsBashRunsThemOrRefused) {
  int count = 200;
  std::uint64_t seed = 1;
  if (const char* const chosen = std::getenv("PLUMBLINE_DRAWN_SCRIPTS"))
    std::istringstream(chosen) >> count >> seed;
  const fs::path folder = fs::path(testing::TempDir()) / fmt::format("plumbline_scripts.{}", ::getpid());
  fs::create_directories(folder / "bin");
  for (const auto& [name, status] : {std::pair("ok", 0), {"fails", 1}})
    write(folder / "bin" / name, fmt::format("#!/bin/sh\nexit {}\n", status));
  write(folder / "bin/torchrun",
        "#!/bin/sh\nprintf '%s\\0' \"$@\" >> \"$RECORD\"\nprintf '\\001\\0' >> \"$RECORD\"\n");
  for (const char* const name : {"ok", "fails", "torchrun"})
    fs::permissions(folder / "bin" / name, fs::perms::owner_all);
  test::DrawnScripts drawn(seed);
  std::vector<std::string> scripts;
  for (int i = 0; i < count; ++i) {
    scripts.push_back(drawn.draw());
    const fs::path own = folder / fmt::format("{}", i);
    fs::create_directories(own);
    write(own / "x.sh", scripts.back());
    for (const auto& [name, text] : test::sourced_files()) write(own / name, text);
  }
  const std::string all = fmt::format(
      "cd {0} && for i in $(seq 0 {1}); do (cd $i; env -i HOME=/nowhere PATH={0}/bin:/usr/bin:/bin "
      "RECORD={0}/$i/record "
      "timeout 5 bash x.sh < /dev/null > /dev/null 2>&1); done",
      folder.string(), count - 1);
  ASSERT_GE(std::system(all.c_str()), 0);
  int as_bash = 0;
  int refused = 0;
  for (int i = 0; i < count; ++i) {
    const std::string& script = scripts[static_cast<std::size_t>(i)];
    const auto launched = launches(folder / fmt::format("{}/record", i));
    const Read found = read(script, "x.sh");
    if (!found.refusal.empty()) {
      ++refused;
      EXPECT_EQ(found.refusal.find('\n'), std::string::npos);
      if (std::getenv("PLUMBLINE_DRAWN_REASONS")) std::printf("refused: %s\n", found.refusal.c_str());
      continue;
    }
    ++as_bash;
    // A script that may end before its launch is read with a note; with set -e any program may end it.
    const bool may_end = !found.found.notes.empty() || script.find("set -e") != std::string::npos;
    if (launched.empty() && may_end) continue;
    if (launched.empty()) ADD_FAILURE() << "bash launches nothing; seed " << seed << ":\n" << script;
    for (const auto& words : launched) {
      const std::string what = difference(found.found, words);
      EXPECT_EQ(what, "") << "script " << i << " of seed " << seed << ":\n" << script;
    }
  }
  fs::remove_all(folder);
  std::printf("%d drawn scripts with seed %lu: %d read as bash runs them, %d refused\n", count,
              static_cast<unsigned long>(seed), as_bash, refused);
  EXPECT_GE(as_bash * 100, count * 40) << "scripts of common kinds are no longer read";
}

}  // namespace
}  // namespace plumbline::drawn_scripts_test
