#include "analysis/silicon/measured_table.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "analysis/hardware/product_rates.hpp"
#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/operators/constants_times.hpp"
#include "analysis/silicon/embedded.hpp"
#include "core/base/error.hpp"

namespace plumbline::silicon::measured_table_test {
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
  double largest;              // median where the largest quarter is left out
};

struct Place {
  std::size_t line, column;
};
using Hidden = std::vector<Place>;
/// Lines and columns to hide.
using Choice = std::function<Hidden(const MeasuredTable&, const LeftOut&)>;

double value_of(const MeasuredTable& table, std::size_t line, std::string_view column,
                std::string* word = nullptr) {
  const auto at = std::find(table.key_names.begin(), table.key_names.end(), column) - table.key_names.begin();
  const std::string text(table.lines[line].keys[static_cast<std::size_t>(at)]);
  if (word != nullptr) *word = text;
  return word != nullptr ? 0 : std::stod(text);
}

std::vector<double> size_of(const MeasuredTable& table, const LeftOut& bounds, const Place& place) {
  std::vector<double> size;
  for (const auto& [column, spacing] : bounds.along) size.push_back(value_of(table, place.line, column));
  size.push_back(table.last_values[place.column]);
  return size;
}

Hidden all_of(const MeasuredTable& table) {
  Hidden all;
  for (std::size_t l = 0; l < table.lines.size(); ++l) {
    for (std::size_t i = 0; i < table.lines[l].seconds.size(); ++i) {
      if (!std::isnan(table.lines[l].seconds[i])) all.push_back({l, i});
    }
  }
  return all;
}

Choice a_tenth(std::mt19937& random) {
  return [&random](const MeasuredTable& table, const LeftOut&) {
    Hidden hidden;
    for (const Place& place : all_of(table))
      if (random() % 10 == 0) hidden.push_back(place);
    return hidden;
  };
}

/// By the product of the sizes; of experts, whose axes divide the work, by tokens.
Hidden largest_quarter(const MeasuredTable& table, const LeftOut& bounds) {
  Hidden all = all_of(table);
  const auto work = [&](const Place& place) {
    double product = table.last_values[place.column];
    for (const auto& [column, spacing] : bounds.along)
      if (spacing != Spacing::inverse && column != "group") product *= value_of(table, place.line, column);
    return product;
  };
  std::stable_sort(all.begin(), all.end(), [&](const Place& a, const Place& b) { return work(a) > work(b); });
  all.resize(all.size() / 4);
  return all;
}

/// The model that an operator's grid has on its accelerator (analysis/operators).
SecondsOfPoint model_of(const std::string& file, const std::string& section, const Keys& keys) {
  for (const auto& [name, machine] : built_in_profiles().machines) {
    if (file.find("_" + name + ".csv") == std::string::npos && !section.starts_with(name)) continue;
    const Device& device = machine.device;
    const Network& network = machine.network;
    for (const std::string type : {"fp8_block", "fp8", "bf16", "nvfp4"}) {
      if (file.starts_with("products_" + type)) return product_model(device, type);
    }
    if (file.starts_with("attention")) {
      const double head = std::stod(keys[0].second), window = std::stod(keys[1].second);
      return [&device, head, window](std::span<const double> x) {
        return attention_by_constants(device, {"bf16", x[0], x[3], x[1], x[1] / x[2], head, window});
      };
    }
    if (file.starts_with("latent")) {
      return [&device](std::span<const double> x) {
        return attention_by_constants(device, {"bf16", x[0], x[2], x[1], x[1], 160, 0});
      };
    }
    for (const std::string type : {"fp8_block", "fp8", "bf16", "nvfp4"}) {
      if (!file.starts_with("experts_" + type)) continue;
      ExpertsShape shape{type,
                         1,
                         std::stod(keys[0].second),
                         std::stod(keys[1].second),
                         std::stod(keys[2].second),
                         std::stod(keys[3].second),
                         1,
                         1,
                         0};
      return [&device, shape](std::span<const double> x) mutable {
        shape.tp = x[0], shape.ep = x[1], shape.tokens = x[2];
        return experts_roofline(device, shape);
      };
    }
    if (file.starts_with("casts")) {
      const std::string part = section.ends_with("amax") ? "amax" : "cast";
      return [&device, part](std::span<const double> x) {
        return cast_by_constants(device, {part, x[0], x[1]});
      };
    }
    if (file.starts_with("collectives")) {
      const std::string operation = section.substr(name.size() + 1);
      return [&network, operation](std::span<const double> x) {
        return collective_by_constants(network, {operation, x[0], x[1]});
      };
    }
  }
  return {};
}

/// Errors of times that are hidden when the rest alone is known.
void add_errors(const std::string& file, const std::string& section, const MeasuredTable& table,
                const LeftOut& bounds, const Choice& choose, std::vector<double>& errors) {
  MeasuredTable known = table;
  const Hidden hidden = choose(table, bounds);
  for (const Place& each : hidden) known.lines[each.line].seconds[each.column] = std::nan("");
  std::map<std::string, std::optional<TimeGrid>> grids;
  for (const Place& each : hidden) {
    Keys keys = bounds.keys;
    std::string name;
    for (auto& [column, value] : keys) {
      value_of(table, each.line, column, &value);
      name += value + ",";
    }
    auto grid = grids.find(name);
    if (grid == grids.end()) {
      grid =
          grids.emplace(name, grid_of(known, keys, bounds.along, bounds.last, model_of(file, section, keys)))
              .first;
    }
    const auto found = grid->second->at(size_of(table, bounds, each));
    if (found) errors.push_back(std::abs(found->seconds / table.lines[each.line].seconds[each.column] - 1));
  }
}

std::vector<double> errors_of(const LeftOut& bounds, const Choice& choose) {
  std::vector<double> errors;
  for (const EmbeddedFile& file : silicon_files()) {
    if (!file.name.starts_with(bounds.files)) continue;
    const std::string name(file.name);
    for (const auto& [section, table] : parse_measured_tables(file.text, name))
      add_errors(name, section, table, bounds, choose, errors);
  }
  std::sort(errors.begin(), errors.end());
  return errors;
}

const std::vector<LeftOut>& cases() {
  constexpr Spacing kLog = Spacing::logarithmic;
  static const std::vector<LeftOut> kCases = {
      {"products_bf16", {}, {{"n", kLog}, {"k", kLog}}, kLog, 0.03, 0.10, 0.12},
      {"products_fp8_", {}, {{"n", kLog}, {"k", kLog}}, kLog, 0.03, 0.10, 0.12},
      {"products_fp8_block", {}, {{"n", kLog}, {"k", kLog}}, kLog, 0.03, 0.10, 0.12},
      {"products_nvfp4", {}, {{"n", kLog}, {"k", kLog}}, kLog, 0.03, 0.10, 0.12},
      {"attention",
       {{"head", ""}, {"window", ""}},
       {{"batch", kLog}, {"heads", kLog}, {"group", kLog}},
       kLog,
       0.05,
       0.13,
       0.12},
      {"latent_attention", {}, {{"batch", kLog}, {"heads", kLog}}, kLog, 0.05, 0.15, 0.12},
      {"collectives", {}, {{"ranks", kLog}}, Spacing::linear, 0.04, 0.17, 0.12},
      {"casts", {}, {{"m", kLog}}, kLog, 0.03, 0.10, 0.12},
      {"experts",
       {{"hidden", ""}, {"ffn", ""}, {"choices", ""}, {"experts", ""}, {"skew", ""}},
       {{"tp", Spacing::inverse}, {"ep", Spacing::inverse}},
       Spacing::linear,
       0.07,
       0.30,
       0.12},
      {"token_exchange",
       {{"table", ""}, {"nodes", ""}, {"ranks", ""}, {"choices", ""}, {"experts", ""}},
       {{"hidden", kLog}, {"processors", kLog}},
       kLog,
       0.03,
       0.10,
       0.12},
  };
  return kCases;
}

TEST(MeasuredTable, TimesThatAreLeftOutAreFoundFromTheRest) {
  for (const LeftOut& bounds : cases()) {
    std::mt19937 random(20261126);
    std::vector<double> errors;
    // bf16 products are near their bounds, collectives few: 160 times in a draw.
    const std::string_view files = bounds.files;
    const int draws = files == "products_bf16" ? 5 : files == "collectives" ? 20 : 1;
    for (int draw = 0; draw < draws; ++draw) {
      for (const double error : errors_of(bounds, a_tenth(random))) errors.push_back(error);
    }
    std::sort(errors.begin(), errors.end());
    ASSERT_GT(errors.size(), 100U) << files;
    const double median = errors[errors.size() / 2], nine = errors[errors.size() * 9 / 10];
    fmt::print("{:<20} {:6} times left out: median {:.1f} %, nine in ten within {:.1f} %\n", files,
               errors.size(), 100 * median, 100 * nine);
    EXPECT_LT(median, bounds.median) << files;
    EXPECT_LT(nine, bounds.nine_in_ten) << files;
  }
}

TEST(MeasuredTable, LargestTimesFollowFromTheRest) {
  for (const LeftOut& bounds : cases()) {
    const std::vector<double> errors = errors_of(bounds, largest_quarter);
    const double median = errors[errors.size() / 2];
    fmt::print("{:<20} largest quarter left out: median {:.1f} %\n", bounds.files, 100 * median);
    EXPECT_LT(median, bounds.largest) << bounds.files;
  }
}

}  // namespace
}  // namespace plumbline::silicon::measured_table_test
