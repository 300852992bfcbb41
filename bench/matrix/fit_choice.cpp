#include "bench/matrix/fit_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/output_folder.hpp"
#include "core/base/output_json.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kLargestChoice = std::size_t{1} << 20;
constexpr double kLongestDuration = 1e12;

std::string path_in(const std::string& folder) {
  return folder + "/" + kFitFile;
}

OrderedJson json_of(const Settings& settings) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [key, value] : settings) json[key] = value.text;
  return json;
}

}  // namespace

FitChoice choose_size(const MatrixFit& fit, const std::string& precision,
                      const std::function<Seconds(const Settings&)>& duration_of) {
  FitChoice choice{0, precision, duration_of(fit.settings(0, precision))};
  while (choice.size + 1 < fit.sizes.size()) {
    const Seconds duration = duration_of(fit.settings(choice.size + 1, precision));
    if (duration > fit.target) break;
    choice = {choice.size + 1, precision, duration};
  }
  return choice;
}

std::string choose_precision(const std::vector<std::string>& precisions, bool multiplies_bf16) {
  for (const std::string& precision : precisions) {
    if (precision == "fp32" || (precision == "bf16" && multiplies_bf16)) return precision;
  }
  return precisions.empty() ? "" : precisions.back();
}

std::optional<FitChoice> kept_choice(const std::string& folder, const MatrixFit& fit) {
  const std::string path = path_in(folder);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  try {
    const auto json = parse_json_object<OrderedJson>(read_text_file(path, kLargestChoice), path);
    const OrderedJsonKeys keys(json, path);
    FitChoice choice;
    choice.precision = keys.string("precision");
    choice.predicted = {keys.number("predicted_s", 0, kLongestDuration)};
    const OrderedJson* const settings = keys.find("settings");
    if (settings == nullptr) keys.refuse("settings", "an object");
    const auto found = std::find_if(fit.sizes.begin(), fit.sizes.end(),
                                    [&](const Settings& size) { return json_of(size) == *settings; });
    const auto& known = fit.precisions;
    if (known.empty()) choice.precision.clear();  // the command line sets it
    const bool has_precision =
        choice.precision.empty() || std::find(known.begin(), known.end(), choice.precision) != known.end();
    if (found == fit.sizes.end() || !has_precision) return std::nullopt;
    choice.size = static_cast<std::size_t>(found - fit.sizes.begin());
    return choice;
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}; remove the file to choose a size anew", error.what()));
  }
}

FitChoice keep_choice(const std::string& folder, const MatrixFit& fit, const FitChoice& choice) {
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  const std::string path = path_in(folder);
  const OrderedJson json = {{"settings", json_of(fit.sizes.at(choice.size))},
                            {"precision", choice.precision},
                            {"predicted_s", choice.predicted.value}};
  const std::string text = output_json(json, 1) + "\n";
  if (!fs::is_directory(folder, ignored)) return choice;  // the store's error will have the reason
  // The first of several runners that share the folder decides: a link is made once.
  const std::string mine = fmt::format("{}.{}", path, ::getpid());
  const OutputFolder out = OutputFolder::named(folder);
  out.write(fs::path(mine).filename().string(), text);
  const bool first = ::link(mine.c_str(), path.c_str()) == 0;
  fs::remove(mine, ignored);
  if (first) return choice;
  if (const auto other = kept_choice(folder, fit)) return *other;
  out.write(fs::path(path).filename().string(), text);
  return choice;
}

std::string describe(const MatrixFit& fit, const FitChoice& choice) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : fit.sizes.at(choice.size)) {
    if (!value.text.starts_with('{')) {
      parts.push_back(fmt::format("{} {}", key, value.text));
      continue;
    }
    const auto mapping = parse_json_object<OrderedJson>(value.text, value.origin);
    for (const auto& [name, member] : mapping.items())
      parts.push_back(fmt::format("{} {}", name, output_json(member, -1)));
  }
  return fmt::format("size {} of {} ({})", choice.size + 1, fit.sizes.size(), fmt::join(parts, ", "));
}

}  // namespace plumbline
