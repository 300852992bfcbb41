#include "analysis/published/known_errors.hpp"

#include <string_view>

#include "analysis/hardware/embedded.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/text_input.hpp"

namespace plumbline::cluster {
namespace {

constexpr const char* kFile = "errors_by_software.json";

std::optional<KnownError> error_in(const JsonKeys& software, const char* quantity) {
  if (software.find(quantity) == nullptr) return std::nullopt;
  const JsonKeys error = software.object(quantity);
  return KnownError{static_cast<int>(error.integer("rows", 1'000'000)), error.number("mape", 0, 1e6),
                    error.number("p90", 0, 1e6)};
}

}  // namespace

KnownErrors known_errors(const std::string& software) {
  const Json root = parse_json_object(embedded_text(analysis_files(), kFile), kFile);
  const JsonKeys file(root, kFile, JsonNull::refused);
  if (file.find(software) == nullptr) return {};
  const JsonKeys entry = file.object(software);
  return {error_in(entry, "step_s"), error_in(entry, "peak_bytes")};
}

}  // namespace plumbline::cluster
