// Data of the page's script: the cells as JSON, details in compressed blocks, timelines as columns of
// numbers.
#include <fmt/format.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/show/report/escape.hpp"
#include "bench/show/report/packed_timeline.hpp"
#include "bench/show/report/page_parts.hpp"
#include "bench/show/text/cell_columns.hpp"
#include "bench/show/text/lane_titles.hpp"
#include "bench/show/text/record_tables.hpp"
#include "core/base/error.hpp"
#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

/// The tensors that took most at the peak of a rank.
OrderedJson holders_of(const RankMemoryReport& rank) {
  OrderedJson holders = OrderedJson::array();
  for (const HolderReport& holder : rank.holders)
    holders.push_back({{"name", holder.holder},
                       {"category", name_of(holder.category)},
                       {"bytes", holder.bytes.value},
                       {"tensors", holder.tensors}});
  return holders;
}

/// Ranks with equal bytes at the same action in one row: {"ranks": [first, last, first, last, …],
/// "pipeline_rank", "bytes", "at", "holders" (of its first rank)}.
OrderedJson memory_rows(const MemoryReport& memory) {
  OrderedJson rows = OrderedJson::array();
  std::map<std::tuple<int, std::string, std::array<std::int64_t, kCategories>>, std::size_t> places;
  for (const RankMemoryReport& rank : memory.ranks) {
    std::array<std::int64_t, kCategories> bytes{};
    for (std::size_t i = 0; i < kCategories; ++i) bytes[i] = rank.bytes.categories[i].value;
    const auto [place, fresh] = places.try_emplace({rank.pipeline_rank, rank.at, bytes}, rows.size());
    if (fresh)
      rows.push_back({{"ranks", OrderedJson::array()},
                      {"pipeline_rank", rank.pipeline_rank},
                      {"bytes", bytes},
                      {"at", rank.at},
                      {"holders", holders_of(rank)}});
    OrderedJson& ranks = rows[place->second]["ranks"];
    const int last = rank.rank + rank.ranks_alike - 1;
    if (!ranks.empty() && ranks.back() == rank.rank - 1) {
      ranks.back() = last;
    } else {
      ranks.push_back(rank.rank);
      ranks.push_back(last);
    }
  }
  return rows;
}

/// A part of a record with its memory in short form, of its device memory the fullest rank.
template <class Report>
OrderedJson short_form(const Report& report) {
  OrderedJson json = to_json(report);
  json["memory"]["ranks"] = memory_rows(report.memory);
  json.erase("steps");
  const DeviceMemoryRow* most = report.device_memory ? report.device_memory->fullest() : nullptr;
  if (most != nullptr) {
    OrderedJson& rows = json["device_memory"]["ranks"];
    const OrderedJson row = rows[static_cast<std::size_t>(most - report.device_memory->ranks.data())];
    rows = OrderedJson::array({row});
  }
  return json;
}

/// Configuration keys that all records share, and those of each record.
OrderedJson common_config(const std::vector<Record>& records) {
  std::map<std::string, std::pair<std::string, std::size_t>> seen;
  for (const Record& record : records) {
    for (const auto& [key, value] : record.config) {
      auto& [first, count] = seen.try_emplace(key, value, 0).first->second;
      if (first == value) ++count;
    }
  }
  OrderedJson common = OrderedJson::object();
  if (records.empty()) return common;
  for (const auto& [key, value] : records.front().config) {
    if (seen[key].second == records.size()) common[key] = value;
  }
  return common;
}

/// The part that the table and the choice of a cell need.
OrderedJson cell_json(const Record& record, const OrderedJson& common, const std::vector<std::string>& keys) {
  OrderedJson config = OrderedJson::object();
  for (const auto& [key, value] : record.config) {
    if (!common.contains(key)) config[key] = value;
  }
  OrderedJson cell = {
      {"id", record.id},         {"label", label_of(record, keys)}, {"status", name_of(record.status)},
      {"reason", record.reason}, {"config", std::move(config)},     {"error", nullptr}};
  if (record.error) cell["error"] = {{"step_time", to_json(record)["error"]["step_time"]}};
  if (!record.prediction) return cell;
  cell["fits"] = record.prediction->fits;
  cell["tokens_per_s_per_gpu"] = to_json(*record.prediction)["throughput"]["tokens_per_s_per_gpu"];
  return cell;
}

/// The part that is read when the cell is shown.
OrderedJson details_json(const Record& record) {
  OrderedJson details = {{"parameters", record.model.parameters},
                         {"prediction", nullptr},
                         {"measurement", nullptr},
                         {"error", nullptr},
                         {"probed", nullptr}};
  if (record.prediction) {
    details["prediction"] = short_form(*record.prediction);
    details["prediction"]["heading"] = "predicted" + speed_suffix(AtSpeed::calibrated, {record});
  }
  if (record.measurement) details["measurement"] = short_form(*record.measurement);
  if (record.probed) details["probed"] = {{"time", to_json(*record.probed)["time"]}};
  if (record.error) details["error"] = to_json(record)["error"];
  return details;
}

/// A browser inflates and parses a block in a few milliseconds; larger blocks compress little better.
constexpr std::size_t kBlockBytes = std::size_t{256} << 10;

std::vector<std::uint8_t> deflated(const std::string& text) {
  uLongf size = compressBound(text.size());
  std::vector<std::uint8_t> packed(size);
  if (compress2(packed.data(), &size, reinterpret_cast<const Bytef*>(text.data()), text.size(),
                Z_DEFAULT_COMPRESSION) != Z_OK)
    throw Error("the page's details cannot be compressed: out of memory");
  packed.resize(size);
  return packed;
}

/// A block is an inert element `details-<number>`: base64 of zlib's format (RFC 1950) of a JSON array of
/// several cells' details.
class DetailBlocks {
 public:
  /// The place of the added details: [block, index within it].
  OrderedJson add(const OrderedJson& details);
  /// HTML of all blocks.
  std::string take();

 private:
  void close();

  std::string open_;      // elements of the array so far
  std::size_t held_ = 0;  // how many
  std::size_t blocks_ = 0;
  std::string html_;
};

OrderedJson DetailBlocks::add(const OrderedJson& details) {
  if (open_.size() >= kBlockBytes) close();
  open_ += (held_ > 0 ? "," : "") + output_json(details, -1);
  return {blocks_, held_++};
}

std::string DetailBlocks::take() {
  if (held_ > 0) close();
  return std::move(html_);
}

void DetailBlocks::close() {
  html_ += fmt::format("<script type=\"text/plain\" id=\"details-{}\">{}</script>\n", blocks_++,
                       base64(deflated("[" + open_ + "]")));
  open_.clear();
  held_ = 0;
}

/// Puts timelines into the page as long as there is room.
class TimelineWriter {
 public:
  explicit TimelineWriter(const ReportInput& input) : input_(input) {}

  /// Adds "timelines", or a "timeline_note", to the cell's details.
  void add(std::size_t index, OrderedJson& cell) {
    if (!input_.timelines) return;
    std::optional<CellTimelines> timelines;
    try {
      timelines = input_.timelines(input_.records[index].id);
    } catch (const InputError& error) {
      cell["timeline_note"] = fmt::format("The timeline file cannot be read: {}", error.what());
      return;
    }
    if (!timelines || (!timelines->predicted && !timelines->measured)) return;
    if (add(index, *timelines, true, true, cell)) return;
    if (add(index, *timelines, true, false, cell)) {
      cell["timeline_note"] =
          fmt::format("Communication lanes are left out to keep this page small; timelines/{}.json has them.",
                      input_.records[index].id);
      return;
    }
    if (add(index, *timelines, false, false, cell)) {
      cell["timeline_note"] =
          fmt::format("Memory over time is left out to keep this page small; timelines/{}.json has it.",
                      input_.records[index].id);
      return;
    }
    cell["timeline_note"] = fmt::format(
        "The timelines are left out to keep this page small; they are in "
        "timelines/{}.json.",
        input_.records[index].id);
  }

  std::string take() { return std::move(html_); }

 private:
  /// False, without a trace of it, when it does not fit.
  bool add(std::size_t index, const CellTimelines& timelines, bool with_memory, bool with_lanes,
           OrderedJson& cell) {
    const Timeline* predicted = timelines.predicted ? &*timelines.predicted : nullptr;
    const Timeline* measured = timelines.measured ? &*timelines.measured : nullptr;
    std::string html;
    OrderedJson headers = OrderedJson::object();
    const auto put = [&](const char* name, const Timeline* timeline, const Timeline* other) {
      if (timeline == nullptr) return;
      PackedTimeline packed = pack(*timeline, other, with_memory, with_lanes);
      headers[name] = std::move(packed.header);
      html += fmt::format("<script type=\"text/plain\" id=\"{}-{}\">{}</script>\n", name, index,
                          base64(packed.bytes));
    };
    put("predicted", predicted, measured);
    put("measured", measured, predicted);
    if (html_.size() + html.size() > input_.timeline_budget) return false;
    html_ += html;
    cell["timelines"] = std::move(headers);
    return true;
  }

  const ReportInput& input_;
  std::string html_;
};

/// Labels of the step's figures by key: the page has the terminal's.
OrderedJson labels_json() {
  OrderedJson labels = OrderedJson::object();
  for (const auto& figure : kTimeFigures) labels[std::string(figure.key)] = figure.title;
  for (const auto& figure : kThroughputFigures) labels[std::string(figure.key)] = figure.title;
  return labels;
}

}  // namespace

std::string data_html(const ReportInput& input) {
  const std::vector<std::string> keys = keys_to_show(input.records);
  TimelineWriter timelines(input);
  OrderedJson data = {{"common", common_config(input.records)},
                      {"categories", OrderedJson::array()},
                      {"types", OrderedJson::array()},
                      {"compute", OrderedJson::array()},
                      {"groups", OrderedJson::array()},
                      {"group_titles", OrderedJson::array()},
                      {"labels", labels_json()},
                      {"measured", any_measured(input.records)},
                      {"cells", OrderedJson::array()}};
  for (int i = 0; i < kCategories; ++i) data["categories"].push_back(name_of(static_cast<Category>(i)));
  for (int i = 0; i < kActionTypes; ++i) {
    data["types"].push_back(name_of(static_cast<ActionType>(i)));
    data["compute"].push_back(is_compute(static_cast<ActionType>(i)));
  }
  for (std::size_t i = 0; i < kLanes; ++i) {
    data["groups"].push_back(lane_name(lane_at(i)));
    data["group_titles"].push_back(lane_title(lane_at(i)));
  }
  DetailBlocks blocks;
  for (std::size_t i = 0; i < input.records.size(); ++i) {
    OrderedJson cell = cell_json(input.records[i], data["common"], keys);
    OrderedJson details = details_json(input.records[i]);
    if (input.progress) input.progress(static_cast<int>(i), static_cast<int>(input.records.size()));
    timelines.add(i, details);
    cell["details"] = blocks.add(details);
    data["cells"].push_back(std::move(cell));
  }
  return fmt::format("<script type=\"application/json\" id=\"data\">{}</script>\n{}{}",
                     json_for_script(output_json(data, -1)), blocks.take(), timelines.take());
}

}  // namespace plumbline
