#include "core/config_text/matrix_fit.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config_text/config_key_kinds.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

constexpr double kLongest = 1e6;  // seconds
constexpr std::size_t kMostSizes = 100;

[[noreturn]] void refuse(const ConfigFile& file, const YAML::Node& at, const std::string& what) {
  throw InputError(fmt::format("{}: fit: {}", file.origin(at), what));
}

std::vector<std::string> precisions_of(const ConfigFile& file, const YAML::Node& list) {
  constexpr const char* kExpected = "precision: expected a list of precisions, such as [bf16, fp32]";
  if (!list.IsSequence() || list.size() == 0) refuse(file, list, kExpected);
  std::vector<std::string> precisions;
  for (const auto& item : list) {
    if (!item.IsScalar()) refuse(file, item, kExpected);
    ConfigDraft ignored;
    get_config_key("precision", file.origin(item)).parse(ignored, {item.Scalar(), file.origin(item), ""});
    precisions.push_back(item.Scalar());
  }
  return precisions;
}

}  // namespace

Settings MatrixFit::settings(std::size_t size, const std::string& precision) const {
  Settings all = sizes.at(size);
  if (!precision.empty()) all["precision"] = {precision, "fit: precision", ""};
  return all;
}

std::optional<MatrixFit> load_fit(const std::string& source) {
  const ConfigFile file(source);
  const YAML::Node node = file.root()["fit"];
  if (!node) return std::nullopt;
  if (!node.IsMap()) refuse(file, node, "expected a mapping with seconds: and sizes:");
  MatrixFit fit;
  for (const auto& entry : node) {
    const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (name == "seconds") {
      const auto seconds =
          entry.second.IsScalar() ? whole_number<double>(entry.second.Scalar()) : std::nullopt;
      if (!seconds || !(*seconds > 0 && *seconds <= kLongest))
        refuse(file, entry.first, fmt::format("seconds: expected a number above 0 up to {}", kLongest));
      fit.target = {*seconds};
    } else if (name == "precision") {
      fit.precisions = precisions_of(file, entry.second);
    } else if (name == "sizes") {
      if (!entry.second.IsSequence() || entry.second.size() == 0 || entry.second.size() > kMostSizes)
        refuse(file, entry.first, fmt::format("sizes: expected a list of 1 to {} mappings", kMostSizes));
      for (const auto& size : entry.second) {
        if (!size.IsMap() || size.size() == 0)
          refuse(file, size, "sizes: expected mappings of keys to values");
        fit.sizes.push_back(file.settings(size));
      }
    } else {
      refuse(file, entry.first,
             fmt::format("{}: unknown key; expected seconds, precision or sizes", printable(name)));
    }
  }
  if (fit.target.value == 0) refuse(file, node, "seconds: missing; expected how long all cells may take");
  if (fit.sizes.empty())
    refuse(file, node, "sizes: missing; expected a list of mappings, the quickest first");
  return fit;
}

}  // namespace plumbline
