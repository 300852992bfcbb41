// libFuzzer target. For any bytes, a table and its header are read or refused in one line, and every row
// becomes a valid configuration or a reason. The input is a header, a line "---", and the table.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "analysis/published/dialect/published_runs.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plumbline;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = text.find("\n---\n");
  if (cut == std::string::npos) return 0;
  try {
    PublishedTable table = parse_published(text.substr(cut + 5), "fuzz", "fuzz.csv");
    table.header = parse_header(text.substr(0, cut), "fuzz.yaml");
    const PublishedRuns read = read_runs(table);
    for (const PublishedRun& run : read.runs) {
      if (why_invalid(run.config) || run.row < 1) std::abort();
      if (!(run.measured.step_s >= 0) || !(run.measured.peak_bytes >= 0)) std::abort();
    }
    for (const SkippedRow& row : read.skipped) {
      if (row.reason.empty() || row.reason.find('\n') != std::string::npos) std::abort();
    }
  } catch (const InputError&) {
  }
  return 0;
}
