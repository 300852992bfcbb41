#include "core/config/config_checks.hpp"

#include <fmt/format.h>

#include "core/config/compatibility.hpp"

namespace plumbline {
namespace {

/// The configuration that a teacher with experts is evaluated with: what is trained alone is sharded.
RunConfig with_teacher_as_model(const RunConfig& config) {
  RunConfig evaluated = config;
  evaluated.model = *config.distillation.teacher;
  evaluated.parallel.dp.overlap_param_gather.reset();
  return evaluated;
}

/// The row that refuses tasks other than training as such.
bool is_task_row(const CompatibilityRow& row) {
  return row.key == kTaskKey && row.relation == Relation::limits;
}

/// The refusal of the first row that one of `refusers` stands in, as commands of that task see it.
std::optional<std::string> first_refusal(const RunConfig& config, unsigned refusers,
                                         RunTask commands = RunTask::train) {
  const auto& teacher = config.distillation.teacher;
  for (const CompatibilityRow& row : compatibility_rows()) {
    if ((row.refusers & refusers) == 0) continue;
    if (commands != RunTask::train && is_task_row(row)) continue;
    if (auto refusal = refusal_of(row, config)) return refusal;
    if (!row.of_teachers || !teacher || !teacher->mixture) continue;
    if (auto refusal = refusal_of(row, with_teacher_as_model(config))) return refusal;
  }
  return std::nullopt;
}

unsigned run_on(Backend backend) {
  return backend == Backend::cpu ? kRunCpu : backend == Backend::cuda ? kRunCuda : kRunEmulated;
}

/// A reason that follows "with X" without another sentence: "whose …", "which …", "so that …".
bool continues(std::string_view why) {
  return why.starts_with("which") || why.starts_with("whose") || why.starts_with("so that");
}

}  // namespace

std::string_view name_of(Relation relation) {
  constexpr std::string_view kNames[] = {"excludes", "needs", "limits"};
  return kNames[static_cast<std::size_t>(relation)];
}

std::optional<std::string> refusal_of(const CompatibilityRow& row, const RunConfig& config) {
  if (row.relation == Relation::limits) return row.limit(config);
  const bool needed = row.relation == Relation::needs;
  const Feature& other = row.other;
  if (!row.feature.on(config) || other.on(config) == needed) return std::nullopt;
  std::string with(other.key);
  if (other.found != nullptr) {
    with += (with.empty() ? "" : " ") + other.found(config);
  } else {
    with = other.values;
  }
  const std::string text = fmt::format("{}: found {} {} {}", row.key, row.feature.found(config),
                                       needed && other.found == nullptr ? "without" : "with", with);
  if (continues(row.why)) return fmt::format("{}, {}; expected {}", text, row.why, row.expected);
  return fmt::format("{}, expected {}{}{}", text, row.expected, row.why.empty() ? "" : ": ", row.why);
}

std::optional<std::string> why_invalid(const RunConfig& config) {
  return first_refusal(config, config.machine.own_step() ? kOwnStep : kOtherSoftware);
}

std::optional<std::string> why_unsupported(const RunConfig& config) {
  return first_refusal(config, run_on(config.machine.backend));
}

std::optional<std::string> why_generation_invalid(const RunConfig& config) {
  if (!config.generation.on()) {
    return fmt::format("task: found {}, expected generate; set task: generate",
                       task_name(config.generation.task));
  }
  return first_refusal(config, config.machine.own_step() ? kOwnStep : kOtherSoftware, RunTask::generate);
}

std::optional<std::string> why_reinforcement_invalid(const RunConfig& config) {
  if (!config.reinforces()) {
    return fmt::format("task: found {}, expected grpo or ppo; set task: grpo",
                       task_name(config.generation.task));
  }
  return first_refusal(config, config.machine.own_step() ? kOwnStep : kOtherSoftware, config.generation.task);
}

std::optional<std::string> why_unpredictable(const RunConfig& config) {
  const unsigned refuser = config.machine.own_step() ? kPredictOwn : kPredictOther;
  if (!config.machine.hardware.empty()) return first_refusal(config, refuser);
  for (const CompatibilityRow& row : compatibility_rows()) {
    const bool here =
        (row.refusers & kPredictHere) != 0 && (row.refusers & run_on(config.machine.backend)) != 0;
    if (!here && (row.refusers & refuser) == 0) continue;
    if (auto refusal = refusal_of(row, config)) return refusal;
  }
  return std::nullopt;
}

}  // namespace plumbline
