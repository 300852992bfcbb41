// The compatibility table. Its rows make every refusal of a configuration (config_checks.hpp) and the page
// `plumbline help compatibility`, and decide what `search` leaves out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/config/run_config.hpp"

namespace plumbline {

enum class Relation : std::uint8_t { excludes, needs, limits };
/// "excludes".
std::string_view name_of(Relation relation);

/// Who refuses, as bits of a row.
enum Refusers : unsigned {
  kOwnStep = 1,        // everybody, where the step is plumbline's own
  kOtherSoftware = 2,  // everybody, where it is predicted for other software
  kRunCpu = 4,         // `run` on a backend
  kRunCuda = 8,
  kRunEmulated = 16,
  kPredictOwn = 32,    // predictions of plumbline's own step
  kPredictOther = 64,  // predictions of other software
  kPredictHere = 128,  // predictions without `hardware`, of this machine with the backend of the bits above
};
inline constexpr unsigned kEverybody = kOwnStep | kOtherSoftware;
inline constexpr unsigned kRun = kRunCpu | kRunCuda | kRunEmulated;

/// One side of a row: values of a key, or a property of model or run.
struct Feature {
  std::string_view key;  // empty: a property
  std::string_view
      values;  // that the row is about, for example "above 1"; of a property its name, "a teacher"
  bool (*on)(const RunConfig& config) = nullptr;
  /// The value, on or not; of a property a text for a refusal, null: its name.
  std::string (*found)(const RunConfig& config) = nullptr;
};

struct CompatibilityRow {
  std::string_view key;  // that a refusal names
  Relation relation = Relation::excludes;
  Feature feature;  // of the key; none where the row is a limit
  Feature other;
  std::string_view why;
  std::string_view expected;
  unsigned refusers = kEverybody;
  /// Relation::limits: the refusal, or nothing; `other.values` is the limit in words.
  std::optional<std::string> (*limit)(const RunConfig& config) = nullptr;
  bool of_teachers = false;  // also asked of a teacher with experts
};

/// Key of the row that refuses generation. It comes first, and generation's own checks alone skip it: a
/// command that does not know of generation never takes its configuration for a training step.
inline constexpr std::string_view kTaskKey = "task";

/// In the order in which they are asked.
std::span<const CompatibilityRow> compatibility_rows();

/// "KEY: found X with Y, expected Z: why", or nothing. Whoever the refusers are.
std::optional<std::string> refusal_of(const CompatibilityRow& row, const RunConfig& config);

}  // namespace plumbline
