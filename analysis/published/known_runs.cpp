#include "analysis/published/known_runs.hpp"

#include <cmath>
#include <filesystem>
#include <string_view>

#include "analysis/hardware/embedded.hpp"
#include "analysis/published/dialect/published_tables.hpp"
#include "analysis/published/published_row.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

/// The software that an entry without constants of its own is based on; empty: it has some.
std::string stands_for(const std::string& software) {
  constexpr const char* kSoftware = "software.json";
  const Json root = parse_json_object(embedded_text(analysis_files(), kSoftware), kSoftware);
  const JsonKeys all = JsonKeys(root, kSoftware, JsonNull::refused).object("software");
  if (all.find(software) == nullptr) return "";
  const JsonKeys entry = all.object(software);
  return entry.find("like") != nullptr && entry.members("constants").empty() ? entry.string("like") : "";
}

void add(std::optional<KnownErrors::Error>& error, double ratio) {
  if (!error) error = KnownErrors::Error{};
  error->mean += (std::abs(1 / ratio - 1) - error->mean) / ++error->rows;
}

std::vector<KnownRun> read_known_runs() {
  constexpr const char* kFile = "known_errors";
  const PublishedTable table =
      parse_published(std::string(embedded_text(analysis_files(), kFile)), kFile, kFile);
  std::vector<KnownRun> runs;
  runs.reserve(table.rows.size());
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const PublishedRow row(table, i);
    runs.push_back({row.text("origin"),
                    row.text("quantity"),
                    {row.text("software"), row.text("hardware"), row.text("kind") == "moe",
                     static_cast<int>(row.number("gpus")), row.number("tokens_per_gpu"),
                     row.number("peak_tflops"), static_cast<int>(row.number("bits"))},
                    row.number("ratio")});
  }
  return runs;
}

}  // namespace

RunKind kind_of(const RunConfig& config, const HardwareProfile& hardware) {
  RunKind kind{config.machine.software, std::filesystem::path(config.machine.hardware).stem().string(),
               static_cast<bool>(config.model.mixture), config.layout().world()};
  kind.tokens_per_gpu =
      static_cast<double>(config.batch.global_batch_size * config.batch.seq_length) / kind.gpus;
  kind.peak_tflops = hardware.peak(DType::bf16).value / 1e12;
  if (config.numerics.fp4_format != Fp4Format::none) {
    kind.bits = 4;
  } else if (config.numerics.fp8.on()) {
    kind.bits = 8;
  }
  return kind;
}

std::string origin_of(const std::string& source) {
  return source.substr(0, source.find_first_of(" ,@"));
}

bool is_same_origin(const std::string& one, const std::string& other) {
  return one == other || one.ends_with("/" + other) || other.ends_with("/" + one);
}

const std::vector<KnownRun>& known_runs() {
  static const std::vector<KnownRun> kAll = read_known_runs();
  return kAll;
}

KnownErrors known_errors(const std::string& software, bool mixture) {
  const std::string other = stands_for(software);
  KnownErrors errors{other.empty() ? software : other, {}, {}};
  for (const KnownRun& run : known_runs()) {
    const std::string& name = run.kind.software;
    if (run.kind.mixture != mixture || (name != software && name != errors.software)) continue;
    add(run.quantity == "step_s" ? errors.step : errors.peak, run.ratio);
  }
  return errors;
}

}  // namespace plumbline
