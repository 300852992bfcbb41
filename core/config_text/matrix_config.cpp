#include "core/config_text/matrix_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/text_input.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_file.hpp"
#include "core/config_text/config_key_kinds.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/config_text/matrix_file.hpp"
#include "core/reinforcement/phases.hpp"

namespace plumbline {
namespace {

/// The keys of a size over those of the file.
void put_size(Settings& base, const Settings& size) {
  for (const auto& [key, value] : size) {
    const auto known = base.find(key);
    const bool mappings =
        known != base.end() && value.text.starts_with('{') && known->second.text.starts_with('{');
    if (mappings) {
      Json merged = parse_json_object(known->second.text, known->second.origin);
      merged.update(parse_json_object(value.text, value.origin));
      known->second.text = merged.dump();
    } else {
      base[key] = value;
    }
  }
}

/// "40%" of a memory budget as 0.4, and no budget in its place; 0 for any other.
double take_budget_share(Settings& settings) {
  constexpr double kMost = 1000;  // per cent
  const auto budget = settings.find("memory_budget");
  if (budget == settings.end() || !budget->second.text.ends_with('%')) return 0;
  const std::string& text = budget->second.text;
  const auto percent = whole_number<double>(text.substr(0, text.size() - 1));
  if (!percent || !(*percent > 0 && *percent <= kMost)) {
    throw InputError(
        fmt::format("{}: memory_budget: found \"{}\", expected a share of the predicted peak such as 40%",
                    budget->second.origin, printable(text)));
  }
  settings.erase(budget);
  return *percent / 100;
}

/// Over the text as written: the same on every machine, for an untouched file.
std::uint64_t hash_of(const Settings& settings) {
  std::uint64_t hash = kFnvBasis;
  for (const auto& [key, value] : settings) hash = fnv1a(key + '\n' + value.text + '\n', hash);
  return hash;
}

/// "tp2_pp1_precision.bf16-1c0ffee5": the varied keys, then a hash of all settings. Fit for a file name.
std::string id_of(const Settings& varied, const Settings& all) {
  constexpr std::size_t kMaxReadable = 100;
  std::string id;
  for (const ConfigKey& key : config_keys()) {
    const auto found = varied.find(key.name);
    if (found == varied.end()) continue;
    const bool is_mapping = found->second.text.starts_with('{');
    id += id.empty() ? "" : "_";
    id += key.alias.empty() ? key.name + "." : key.alias;
    for (const char c : is_mapping ? std::string("inline") : found->second.text) {
      const bool safe =
          (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.';
      id += safe ? c : '-';
    }
  }
  if (id.empty()) id = "cell";
  return fmt::format("{}-{:016x}", id.substr(0, kMaxReadable), hash_of(all));
}

/// The cell that every cell is compared with. `varied`: what each cell sets.
void set_baselines(const Settings& baseline, const std::vector<Settings>& varied,
                   std::vector<MatrixCell>& cells) {
  if (baseline.empty()) return;
  for (const auto& [key, value] : baseline) {
    const bool known =
        std::any_of(varied.begin(), varied.end(), [&key = key, &value = value](const Settings& cell) {
          const auto found = cell.find(key);
          return found != cell.end() && found->second.text == value.text;
        });
    if (known) continue;
    throw InputError(
        fmt::format("{}: baseline: {}: found \"{}\", expected a value that a cell of the matrix has",
                    value.origin, key, printable(value.text)));
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    Settings wanted = varied[i];
    for (const auto& [key, value] : baseline) wanted[key] = value;
    const auto found = std::find_if(varied.begin(), varied.end(), [&](const Settings& other) {
      return other.size() == wanted.size() && same_values(other, wanted);
    });
    if (found != varied.end()) cells[i].baseline = cells[static_cast<std::size_t>(found - varied.begin())].id;
  }
}

using NumberedModels = std::vector<std::pair<std::size_t, Json>>;

/// True if models with equal values of `first` have equal values of `key`: n_head follows from n_embd.
bool follows_from(const NumberedModels& models, const std::string& first, const std::string& key) {
  std::map<std::string, std::string> values;
  const auto text_of = [](const Json& model, const std::string& name) {
    return model.contains(name) ? model[name].dump() : std::string();
  };
  return std::all_of(models.begin(), models.end(), [&](const auto& each) {
    const auto [at, fresh] = values.try_emplace(text_of(each.second, first), text_of(each.second, key));
    return fresh || at->second == text_of(each.second, key);
  });
}

/// Names inline models by the keys that differ between cells, without those that follow from others: "inline
/// hidden_size 256".
void name_inline_models(const std::vector<Settings>& varied, std::vector<MatrixCell>& cells) {
  NumberedModels models;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto found = varied[i].find("model");
    if (found == varied[i].end() || !found->second.text.starts_with('{')) continue;
    if (cells[i].config.model.name != "inline") continue;  // it has a name of its own
    models.emplace_back(i, parse_json_object(found->second.text, found->second.origin));
  }
  for (auto& [cell, model] : models) {
    std::string name = "inline";
    std::vector<std::string> named;
    for (const auto& [key, value] : model.items()) {
      const std::string known = key;
      const Json& mine = value;
      const bool differs = std::any_of(models.begin(), models.end(), [&](const auto& other) {
        return !other.second.contains(known) || other.second[known] != mine;
      });
      const bool follows = std::any_of(named.begin(), named.end(), [&](const std::string& first) {
        return follows_from(models, first, known);
      });
      if (!differs || follows) continue;
      name += fmt::format("{} {} {}", named.empty() ? "" : ",", known, printable(mine.dump(), 40));
      named.push_back(known);
    }
    cells[cell].config.model.name = name;
    for (auto& [key, value] : cells[cell].values) {
      if (key == "model") value = name;
    }
  }
}

}  // namespace

std::vector<MatrixCell> load_matrix(const std::string& source, const Overrides& overrides,
                                    const Settings& size) {
  const MatrixFile file(source);
  Settings base = file.base();
  put_size(base, size);
  const Settings forced = settings_of(overrides);
  std::vector<MatrixCell> cells;
  std::vector<Settings> set_by_cells;
  std::set<std::string> ids;
  for (Settings varied : file.cells()) {
    for (auto& [key, value] : varied) {
      if (const auto found = forced.find(key); found != forced.end()) value = found->second;
    }
    for (const auto& [key, value] : size) {
      if (!varied.contains(key)) continue;
      throw InputError(fmt::format("{}: fit: sizes: {}: found in the matrix, too; expected it in one of them",
                                   value.origin, key));
    }
    Settings all = base;
    merge(all, varied);
    put_over(all, forced);
    MatrixCell cell;
    cell.id = id_of(varied, all);
    if (!ids.insert(cell.id).second) continue;  // an override, or a value listed twice, makes cells equal
    cell.budget_share = take_budget_share(all);
    cell.config = config_from(all, file.name(), cell.invalid);
    const bool reinforced = cell.config.reinforces();
    if (cell.invalid.empty())
      cell.invalid = (reinforced ? why_phases_invalid(cell.config) : why_invalid(cell.config)).value_or("");
    for (const ConfigKey& key : config_keys()) {
      const auto found = varied.find(key.name);
      if (found == varied.end()) continue;
      const bool is_mapping = found->second.text.starts_with('{');
      cell.values.emplace_back(key.name, is_mapping ? key.print(cell.config) : found->second.text);
    }
    cells.push_back(std::move(cell));
    set_by_cells.push_back(std::move(varied));
  }
  set_baselines(file.baseline(), set_by_cells, cells);
  name_inline_models(set_by_cells, cells);
  return cells;
}

}  // namespace plumbline
