#include "bench/ask/predict_answer.hpp"

#include <utility>

#include "analysis/predict/shape_warnings.hpp"
#include "bench/ask/legality.hpp"
#include "bench/plan/chosen_hardware.hpp"
#include "bench/plan/keys_without_effect.hpp"
#include "bench/plan/packed_data.hpp"
#include "bench/plan/plan.hpp"
#include "bench/plan/prediction_parts.hpp"
#include "bench/record/record.hpp"
#include "bench/show/views/prediction_trust.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_listing.hpp"

namespace plumbline {
namespace {

OrderedJson fit_json(const Fit& fit) {
  return {{"rank", fit.rank}, {"needed_bytes", fit.needed.value}, {"limit_bytes", fit.limit.value}};
}

/// The record's prediction without its ranks.
OrderedJson brief_json(const Prediction& prediction, const MemoryVerdict& verdict) {
  PredictionReport report;
  report.fits = prediction.fit.fits;
  set_verdict(verdict, report);
  report.times_guessed = prediction.guessed;
  report.times_estimated = prediction.estimated;
  report.memory.peak = prediction.memory.peak;
  report.memory.peak_rank = prediction.memory.peak_rank;
  report.time = prediction.time;
  report.throughput = prediction.throughput;
  OrderedJson json = to_json(report);
  json["memory"].erase("ranks");
  return json;
}

void add_record(const RunConfig& config, const RepeatedSchedule& step, const HardwareProfile& hardware,
                const Prediction& prediction, OrderedJson& json) {
  Record record;
  record.config = describe(config);
  record.model = model_report(config);
  record.prediction = whole_report(prediction, config, step, hardware);
  OrderedJson whole = to_json(record);
  for (const char* key : {"prediction", "config", "model"}) json[key] = std::move(whole[key]);
  json["trust"] = trust_json(config, hardware, prediction);
}

}  // namespace

OrderedJson predict_answer(const AskedConfig& asked, Detail detail) {
  std::vector<std::string> notes;
  const RunConfig config = config_of(asked, notes);
  if (const auto reason = why_invalid(config)) throw InputError(*reason);
  if (const auto reason = why_unpredictable(config)) throw InputError(*reason);
  std::string note;
  if (const auto reason =
          config.numerics.fp8.on() ? why_unpredictable(config, hardware_of(config, note)) : std::nullopt)
    throw InputError(*reason);
  const RepeatedSchedule step = step_for(config);
  const HardwareProfile hardware = hardware_of(config, note);
  if (!note.empty()) notes.push_back(note);
  const Prediction prediction = predict(config, step, hardware);
  OrderedJson json;
  json["prediction"] = nullptr;
  if (detail == Detail::full) {
    for (std::string& lacked : predicted_as_if(config, hardware)) notes.push_back(std::move(lacked));
    for (std::string& idle : keys_without_effect(config)) notes.push_back(std::move(idle));
    for (std::string& warning : shape_warnings(config, hardware)) notes.push_back(std::move(warning));
    add_record(config, step, hardware, prediction, json);
    if (!asked.lengths.empty())
      json["sequence_lengths"] = to_json(pack_documents(asked.lengths, "sequence_lengths", config));
  } else {
    json["prediction"] = brief_json(prediction, verdict_of(config, hardware, prediction.fit));
  }
  json["fit"] = fit_json(prediction.fit);
  json["notes"] = notes;
  return json;
}

}  // namespace plumbline
