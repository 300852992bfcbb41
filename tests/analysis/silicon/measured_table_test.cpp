#include "analysis/silicon/measured_table.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "analysis/silicon/embedded.hpp"
#include "core/base/error.hpp"

namespace plumbline::silicon {
namespace {

using ::testing::HasSubstr;

TEST(MeasuredTable, ReadsSectionsLinesAndGaps) {
  const auto tables = parse_measured_tables(
      "# where from\n[burst]\nn,k|m,32,64\n8,4,1.5,2\n8,16,,3\n[other]\n|bytes,1\n,7\n", "t");
  const MeasuredTable& burst = tables.at("burst");
  EXPECT_EQ(burst.last_values, (std::vector<double>{32, 64}));
  ASSERT_EQ(burst.lines.size(), 2U);
  EXPECT_DOUBLE_EQ(burst.lines[0].seconds[0], 1.5e-6);
  EXPECT_TRUE(std::isnan(burst.lines[1].seconds[0]));
  const auto grid = grid_of(burst, {{"n", "8"}}, {{"k", Spacing::logarithmic}}, Spacing::logarithmic);
  ASSERT_TRUE(grid);
  EXPECT_DOUBLE_EQ(grid->at(std::vector<double>{16, 64})->seconds, 3e-6);
  EXPECT_FALSE(grid_of(burst, {{"n", "9"}}, {}, Spacing::linear));
}

TEST(MeasuredTable, NamesTheLineOfWhatIsNotInThisForm) {
  const std::pair<const char*, const char*> cases[] = {
      {"8,4,1\n", "t:1: found 8,4,1, expected [NAME] first"},
      {"[a\n", "t:1: found [a, expected [NAME]"},
      {"[a]\nn,k\n", "t:2: found n,k, expected names of key columns"},
      {"[a]\nn|m\n", "t:2: found n|m, expected values"},
      {"[a]\nn|m,x\n", "t:2: found x, expected a number above 0"},
      {"[a]\nn|m,1\n8,1,2\n", "t:3: found 3 cells, expected 2 to 2"},
      {"[a]\nn|m,1\n8,-1\n", "t:3: found -1, expected a number above 0"},
  };
  for (const auto& [text, message] : cases) {
    try {
      parse_measured_tables(text, "t");
      ADD_FAILURE() << text;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
}

struct LeftOut {
  const char* files;  // beginning of their names
  Keys keys;          // columns that are equal within a grid; values are ignored
  std::vector<KeyAxis> along;
  Spacing last;
  double median, nine_in_ten;  // bounds of relative errors
};

/// Errors of a tenth of a table's times when the rest alone is known.
void add_errors(const MeasuredTable& table, const LeftOut& bounds, std::mt19937& random,
                std::vector<double>& errors) {
  MeasuredTable known = table;
  struct Hidden {
    std::size_t line, place;
  };
  std::vector<Hidden> hidden;
  for (std::size_t l = 0; l < known.lines.size(); ++l) {
    for (std::size_t i = 0; i < known.lines[l].seconds.size(); ++i) {
      if (std::isnan(known.lines[l].seconds[i]) || random() % 10 != 0) continue;
      hidden.push_back({l, i});
      known.lines[l].seconds[i] = std::nan("");
    }
  }
  const auto word = [&](std::size_t line, std::string_view column) {
    const auto at =
        std::find(table.key_names.begin(), table.key_names.end(), column) - table.key_names.begin();
    return std::string(table.lines[line].keys[static_cast<std::size_t>(at)]);
  };
  std::map<std::string, std::optional<TimeGrid>> grids;
  for (const Hidden& each : hidden) {
    Keys keys = bounds.keys;
    std::string name;
    for (auto& [column, value] : keys) {
      value = word(each.line, column);
      name += value + ",";
    }
    auto grid = grids.find(name);
    if (grid == grids.end())
      grid = grids.emplace(name, grid_of(known, keys, bounds.along, bounds.last)).first;
    std::vector<double> size;
    for (const auto& [column, spacing] : bounds.along) size.push_back(std::stod(word(each.line, column)));
    size.push_back(table.last_values[each.place]);
    const auto found = grid->second->at(size);
    if (found) errors.push_back(std::abs(found->seconds / table.lines[each.line].seconds[each.place] - 1));
  }
}

TEST(MeasuredTable, TimesThatAreLeftOutAreFoundFromTheRest) {
  constexpr Spacing kLog = Spacing::logarithmic;
  const LeftOut cases[] = {
      // Kernels are chosen shape by shape: bf16 jumps between neighbours more than the others.
      {"products_bf16", {}, {{"n", kLog}, {"k", kLog}}, kLog, 0.034, 0.11},
      {"products_fp8_", {}, {{"n", kLog}, {"k", kLog}}, kLog, 0.03, 0.10},
      {"products_fp8_block", {}, {{"n", kLog}, {"k", kLog}}, kLog, 0.03, 0.10},
      {"products_nvfp4", {}, {{"n", kLog}, {"k", kLog}}, kLog, 0.03, 0.10},
      {"attention",
       {{"head", ""}, {"window", ""}},
       {{"batch", kLog}, {"heads", kLog}, {"group", kLog}},
       kLog,
       0.05,
       0.13},
      {"latent_attention", {}, {{"batch", kLog}, {"heads", kLog}}, kLog, 0.05, 0.15},
      {"collectives", {}, {{"ranks", kLog}}, Spacing::linear, 0.04, 0.17},
      {"casts", {}, {{"m", kLog}}, kLog, 0.03, 0.10},
      {"experts",
       {{"hidden", ""}, {"ffn", ""}, {"choices", ""}, {"experts", ""}, {"skew", ""}},
       {{"tp", Spacing::inverse}, {"ep", Spacing::inverse}},
       Spacing::linear,
       0.07,
       0.30},
      {"token_exchange",
       {{"table", ""}, {"nodes", ""}, {"ranks", ""}, {"choices", ""}, {"experts", ""}},
       {{"hidden", kLog}, {"processors", kLog}},
       kLog,
       0.03,
       0.10},
  };
  std::mt19937 random(20261126);
  for (const LeftOut& bounds : cases) {
    std::vector<double> errors;
    for (const EmbeddedFile& file : silicon_files()) {
      if (!file.name.starts_with(bounds.files)) continue;
      const auto tables = parse_measured_tables(file.text, std::string(file.name));
      for (const auto& [name, table] : tables) add_errors(table, bounds, random, errors);
    }
    ASSERT_GT(errors.size(), 100U) << bounds.files;
    std::sort(errors.begin(), errors.end());
    const double median = errors[errors.size() / 2], nine = errors[errors.size() * 9 / 10];
    fmt::print("{:<20} {:6} times left out: median {:.1f} %, nine in ten within {:.1f} %\n", bounds.files,
               errors.size(), 100 * median, 100 * nine);
    EXPECT_LT(median, bounds.median) << bounds.files;
    EXPECT_LT(nine, bounds.nine_in_ten) << bounds.files;
  }
}

}  // namespace
}  // namespace plumbline::silicon
