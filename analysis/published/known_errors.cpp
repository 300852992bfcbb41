#include "analysis/published/known_errors.hpp"

#include <string_view>

#include "analysis/hardware/embedded.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr const char* kFile = "errors_by_software.json";

std::optional<KnownError> error_in(const JsonKeys& runs, const char* quantity) {
  if (runs.find(quantity) == nullptr) return std::nullopt;
  const JsonKeys error = runs.object(quantity);
  const auto rows = [&](const char* key) { return static_cast<int>(error.integer(key, 1'000'000)); };
  return KnownError{rows("rows"),
                    error.number("mape", 0, 1e6),
                    {error.number("low", 0, 1e6), error.number("high", 0, 1e6), rows("interval_rows")}};
}

/// The software that an entry without constants of its own is based on; empty: it has some.
std::string stands_for(const std::string& software) {
  constexpr const char* kSoftware = "software.json";
  const Json root = parse_json_object(embedded_text(analysis_files(), kSoftware), kSoftware);
  const JsonKeys all = JsonKeys(root, kSoftware, JsonNull::refused).object("software");
  if (all.find(software) == nullptr) return "";
  const JsonKeys entry = all.object(software);
  return entry.find("like") != nullptr && entry.members("constants").empty() ? entry.string("like") : "";
}

}  // namespace

KnownErrors known_errors(const std::string& software, bool mixture) {
  const Json root = parse_json_object(embedded_text(analysis_files(), kFile), kFile);
  const JsonKeys file(root, kFile, JsonNull::refused);
  if (file.find(software) == nullptr) {
    const std::string other = stands_for(software);
    return other.empty() ? KnownErrors{} : known_errors(other, mixture);
  }
  const JsonKeys kinds = file.object(software);
  const char* kind = mixture ? "mixture" : "dense";
  if (kinds.find(kind) == nullptr) return {};
  const JsonKeys runs = kinds.object(kind);
  return {software, error_in(runs, "step_s"), error_in(runs, "peak_bytes")};
}

}  // namespace plumbline
