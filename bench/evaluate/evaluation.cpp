#include "bench/evaluate/evaluation.hpp"

#include "bench/evaluate/record_parts.hpp"
#include "bench/measure/machine/cuda_facts.hpp"
#include "bench/measure/machine/machine.hpp"
#include "bench/plan/plan.hpp"
#include "bench/training/trainer/run_files.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_listing.hpp"
#include "core/reinforcement/phases.hpp"

namespace plumbline {

Record start_record(const std::string& id, const RunConfig& config, Asked asked) {
  Record record;
  record.id = id;
  record.config = describe(config);
  record.machine = this_machine();
  record.model = model_report(config);
  const bool reinforced = asked == Asked::prediction && config.reinforces();
  if (const auto reason = reinforced ? why_phases_invalid(config) : why_invalid(config)) {
    record.status = Status::invalid;
    record.reason = *reason;
  } else if (const auto missing = asked == Asked::prediction
                                      ? why_unpredictable(reinforced ? update_config(config) : config)
                                      : why_unsupported(config)) {
    record.status = Status::unsupported;
    record.reason = *missing;
  } else if (config.numerics.fp8.on()) {
    std::string note;
    if (const auto lacking = why_unpredictable(config, hardware_of(config, note))) {
      record.status = Status::unsupported;
      record.reason = *lacking;
    }
  }
  return record;
}

bool has_device(const RunConfig& config, int ranks_here, Record& record) {
  if (config.machine.backend != Backend::cuda) return true;
  add_cuda(cuda_facts(), ranks_here, record.machine);
  const auto reason = why_no_cuda(cuda_facts());
  if (!reason) return true;
  record.status = Status::unsupported;
  record.reason = *reason;
  return false;
}

std::vector<std::string> check_files(const RunConfig& config) {
  return training::check_files(config);
}

Prediction predict_config(const RunConfig& config, const HardwareProfile& hardware) {
  return predict(config, step_for(config), hardware);
}

}  // namespace plumbline
