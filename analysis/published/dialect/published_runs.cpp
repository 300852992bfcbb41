#include "analysis/published/dialect/published_runs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <utility>

#include "analysis/published/dialect/dialect_columns.hpp"
#include "analysis/published/dialect/implied_settings.hpp"
#include "analysis/published/dialect/published_experts.hpp"
#include "analysis/published/dialect/published_layers.hpp"
#include "analysis/published/dialect/published_model.hpp"
#include "analysis/published/dialect/row_cells.hpp"
#include "analysis/published/dialect/unstated_choices.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config/compatibility.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_file.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

std::string cell_or(const Cells& cells, std::string_view column, const std::string& otherwise) {
  const auto at = cells.find(column);
  return at == cells.end() ? otherwise : at->second;
}

bool is_coming(const std::string& key, const std::string& value) {
  for (const ComingValue& coming : kComingValues) {
    if (coming.key == key && coming.value == value) return true;
  }
  return false;
}

/// True if the key's own reader accepts the text.
bool is_readable(const ConfigKey& key, const ConfigText& text) {
  ConfigDraft draft;
  try {
    key.parse(draft, text);
  } catch (const InputError&) {
    return false;
  }
  return true;
}

/// The names in a list with semicolons; one that a key stands for goes to the settings.
void add_flags(const std::string& list, const std::string& origin, Settings& settings,
               std::vector<std::string>& features) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(';', begin), list.size());
    const std::string flag = list.substr(begin, end - begin);
    const ConfigText on{"true", origin, ""};
    const ConfigKey* key = find_feature_column(flag) != nullptr ? nullptr : find_config_key(flag);
    if (flag == "moe_routing real") {
      settings["moe_routing"] = {"real", origin, ""};
    } else if (key != nullptr && key->expected == "true or false") {  // a switch
      settings[flag] = on;
    } else if (end > begin) {
      features.push_back(printable(flag));
    }
    begin = end + 1;
  }
}

/// A switch of experts in a row whose model has some: by their number, or a preset's.
bool is_part(const FeatureColumn& feature, const Cells& cells) {
  if (cells.contains(feature.part_of)) return true;
  const ModelConfig* preset = find_preset(cell_or(cells, "model", ""));
  return feature.part_of == "num_experts" && preset != nullptr && preset->mixture;
}

/// Features that no configuration key stands for, and values that none takes yet.
std::vector<std::string> unmodelled_features(const Cells& cells, Settings& settings,
                                             const std::string& origin, const std::string& folder) {
  std::vector<std::string> features;
  for (const auto& [column, text] : cells) {
    const FeatureColumn* feature = find_feature_column(column);
    const ConfigKey* key = feature != nullptr && feature->own_step ? nullptr : find_config_key(column);
    if (key != nullptr) {
      const ConfigText value{text, origin, folder};
      if (is_coming(column, text) && !is_readable(*key, value)) {
        features.push_back(fmt::format("{} {}", column, text));
      } else if (column != "model") {
        settings[column] = value;
      }
    } else if (feature != nullptr) {
      if (text == feature->without) continue;
      if (column == "other_flags") {
        add_flags(text, origin, settings, features);
      } else if (!is_part(*feature, cells)) {
        features.push_back(column);
      }
    }
  }
  for (std::string& feature : unmodelled_experts(cells)) features.push_back(std::move(feature));
  return features;
}

void require(const Cells& cells, const std::string& origin) {
  for (const char* column : {"hardware", "software", "seq_length", "micro_batch_size", "global_batch_size"}) {
    if (cells.contains(column)) continue;
    if (std::string_view(column) == "global_batch_size" && cells.contains("num_microbatches")) continue;
    throw InputError(fmt::format("{}: {}: missing; expected it in a column or under defaults of the header",
                                 origin, column));
  }
  if (!cells.contains("world_size") && !cells.contains("data_parallel_size")) {
    throw InputError(fmt::format("{}: world_size: missing; expected it or data_parallel_size", origin));
  }
}

/// The global batch of this many micro-batches on every replica.
void put_microbatches(const Cells& cells, const std::string& origin, RunConfig& config) {
  const auto at = cells.find("num_microbatches");
  if (at == cells.end()) return;
  const double number = std::floor(cell_number(at->second, origin, at->first, 1, 1e6));
  const std::int64_t batch =
      static_cast<std::int64_t>(number) * config.batch.micro_batch_size * config.parallel.data();
  if (cells.contains("global_batch_size") && config.batch.global_batch_size != batch) {
    throw Contradiction(
        fmt::format("contradicts itself: global_batch_size {}, {} micro-batches of {} on {} replicas make {}",
                    config.batch.global_batch_size, number, config.batch.micro_batch_size,
                    config.parallel.data(), batch));
  }
  config.batch.global_batch_size = batch;
}

/// "h{hidden_size} t{tp}" with the cells of those names in place of the braces.
std::string filled(const std::string& pattern, const Cells& cells) {
  std::string text;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    const std::size_t end = pattern[at] == '{' ? pattern.find('}', at) : std::string::npos;
    if (end == std::string::npos) {
      text += pattern[at];
      continue;
    }
    const std::string name = pattern.substr(at + 1, end - at - 1);
    const ConfigKey* key = find_config_key(name);
    text += cell_or(cells, key != nullptr ? key->name : name, "");
    at = end;
  }
  return text;
}

/// "KEY VALUE with SOFTWARE" of a configuration that other software runs and its predictions refuse.
/// Empty: the row contradicts itself.
std::string unpredicted(const RunConfig& config) {
  const std::string& software = config.machine.software;
  for (const CompatibilityRow& row : compatibility_rows()) {
    if ((row.refusers & kOtherSoftware) == 0 || !refusal_of(row, config)) continue;
    if (software == "plumbline") return {};
    if (row.key == "cp_comm_type") return fmt::format("cp_comm_type of few heads with {}", software);
    const bool feature = row.refusers == kOtherSoftware && row.relation == Relation::excludes;
    return feature ? fmt::format("{} {} with {}", row.key, row.feature.found(config), software) : "";
  }
  return {};
}

PublishedRun read_run(const PublishedTable& table, std::size_t row, const Cells& cells, Settings settings) {
  const std::string origin = row_origin(table, row);
  require(cells, origin);
  PublishedRun run;
  run.row = static_cast<int>(row) + 1;
  run.cells = cells;
  run.source = printable(cell_or(cells, "source", table.header.source), 300);
  settings["model"] = {"gpt2-124m", origin, ""};  // its place is taken below
  std::string contradiction;
  run.config = config_from(settings, origin, contradiction);
  if (!contradiction.empty()) throw InputError(fmt::format("{}: {}", origin, contradiction));
  run.config.model = published_model(cells, origin, table.folder);
  put_microbatches(cells, origin, run.config);
  put_layers(cells, origin, run.config);
  if (const auto reason = why_invalid(run.config)) {
    std::string feature = unpredicted(run.config);
    if (feature.empty()) throw InputError(fmt::format("{}: {}", origin, *reason));
    run.unmodelled.push_back(std::move(feature));
  }
  run.measured = measured_values(cells, run.config, origin);
  if (run.measured.step_s == 0 && run.measured.peak_bytes == 0) {
    throw InputError(
        fmt::format("{}: no measured value, expected step_s, a rate or a peak of memory", origin));
  }
  run.label = printable(cell_or(cells, "label", filled(table.header.label, cells)), 200);
  if (run.label.empty()) run.label = fmt::format("row {}", run.row);
  run.sweep = cell_or(cells, "sweep", filled(table.header.sweep, cells));
  return run;
}

/// A row that cannot be read because of features that are not modelled.
struct Unmodelled : std::exception {
  explicit Unmodelled(std::vector<std::string> names) : features(std::move(names)) {}
  std::vector<std::string> features;
};

PublishedRun read_reading(const PublishedTable& table, std::size_t row, const Cells& cells) {
  Settings settings;
  const std::vector<std::string> features =
      unmodelled_features(cells, settings, row_origin(table, row), table.folder);
  try {
    PublishedRun run = read_run(table, row, cells, std::move(settings));
    run.unmodelled.insert(run.unmodelled.end(), features.begin(), features.end());
    return run;
  } catch (const std::exception&) {
    // The feature may change the meaning of the row's other cells: it is the reason.
    if (features.empty()) throw;
    throw Unmodelled(features);
  }
}

/// The row with the likeliest values of the settings that it leaves open. Throws what its first reading does
/// if none is a valid configuration.
PublishedRun read_readings(const PublishedTable& table, std::size_t row, const Cells& cells) {
  std::vector<PublishedRun> runs;
  std::exception_ptr refusal;
  for (const Reading& reading : readings_of(with_implied_settings(cells), row_origin(table, row))) {
    try {
      runs.push_back(read_reading(table, row, reading.cells));
      runs.back().choice = reading.choice;
    } catch (const std::exception&) {
      if (!refusal) refusal = std::current_exception();
    }
  }
  if (runs.empty()) std::rethrow_exception(refusal);
  PublishedRun run = std::move(runs.front());
  run.cells = cells;
  run.others.assign(std::make_move_iterator(runs.begin() + 1), std::make_move_iterator(runs.end()));
  for (const PublishedRun& other : run.others) {
    // A batch in micro-batches: the published figure itself depends on the open value.
    if (other.config.batch.global_batch_size != run.config.batch.global_batch_size)
      throw Unmodelled({"micro_batch_size unstated"});
  }
  return run;
}

}  // namespace

SkippedRow not_modelled(int row, const std::vector<std::string>& features) {
  return {row, fmt::format("not modelled yet: {}", fmt::join(features, ", ")), features, false};
}

PublishedRuns read_runs(const PublishedTable& table) {
  PublishedRuns read;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const int number = static_cast<int>(row) + 1;
    try {
      for (const Cells& cells : row_cells(table, row)) {
        try {
          read.runs.push_back(read_readings(table, row, cells));
        } catch (const Unmodelled& row_features) {
          read.skipped.push_back(not_modelled(number, row_features.features));
        }
      }
    } catch (const Contradiction& reason) {
      read.skipped.push_back({number, reason.what(), {}, false});
    } catch (const InputError& error) {
      read.skipped.push_back({number, error.what(), {}, true});
    }
  }
  return read;
}

}  // namespace plumbline
