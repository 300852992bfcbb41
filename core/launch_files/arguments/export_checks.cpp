#include "core/launch_files/arguments/export_checks.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {

void refuse_export(const std::string& framework, const std::string& key, const std::string& found,
                   const std::string& expected) {
  throw InputError(fmt::format("{}: found {}, which {} do not say; expected {}", key, printable(found),
                               framework, expected));
}

void check_exportable(const std::string& framework, const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  if (config.distillation.teacher)
    refuse_export(framework, "teacher", config.distillation.teacher->name, "none");
  if (config.finetune.lora())
    refuse_export(framework, "frozen", config.finetune.canonical() ? "canonical_lora" : "lora", "none");
  if (parallel.splits_vocabulary()) refuse_export(framework, "vocab_parallel", "a split over stages", "none");
  if (config.batch.prefix_length != 0) refuse_export(framework, "prefix_length", "a prefix", "0");
  if (config.optimizer.kind != Optimizer::adam) refuse_export(framework, "optimizer", "sgd", "adam");
}

}  // namespace plumbline
