#include "bench/ask/predict_answer.hpp"

#include <utility>

#include "analysis/predict/shape_warnings.hpp"
#include "analysis/reinforcement/reinforcement_prediction.hpp"
#include "bench/ask/legality.hpp"
#include "bench/plan/chosen_hardware.hpp"
#include "bench/plan/keys_without_effect.hpp"
#include "bench/plan/packed_data.hpp"
#include "bench/plan/plan.hpp"
#include "bench/plan/prediction_parts.hpp"
#include "bench/plan/reinforcement_parts.hpp"
#include "bench/record/record.hpp"
#include "bench/show/views/prediction_trust.hpp"
#include "bench/show/views/reinforcement/reinforcement_summary.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_listing.hpp"
#include "core/reinforcement/phases.hpp"

namespace plumbline {
namespace {

OrderedJson fit_json(const Fit& fit) {
  return {{"rank", fit.rank}, {"needed_bytes", fit.needed.value}, {"limit_bytes", fit.limit.value}};
}

OrderedJson without_ranks(OrderedJson prediction) {
  prediction["memory"].erase("ranks");
  return prediction;
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
  return without_ranks(to_json(report));
}

void add_record(const RunConfig& config, PredictionReport report, OrderedJson& json) {
  Record record;
  record.config = describe(config);
  record.model = model_report(config);
  record.prediction = std::move(report);
  OrderedJson whole = to_json(record);
  for (const char* key : {"prediction", "config", "model"}) json[key] = std::move(whole[key]);
}

/// A step of reinforcement learning: the figures that a step of training has, too, and all of its phases.
OrderedJson phases_answer(const RunConfig& config, Detail detail, std::vector<std::string> notes) {
  if (const auto reason = why_phases_invalid(config)) throw InputError(*reason);
  std::string note;
  const HardwareProfile hardware = hardware_of(config, note);
  if (!note.empty()) notes.push_back(note);
  const ReinforcementPrediction prediction = predict_reinforcement(config, hardware, step_for);
  OrderedJson json, step = reinforcement_json(config, hardware, prediction);
  json["prediction"] = nullptr;
  if (detail == Detail::full) {
    for (std::string& idle : keys_without_effect(config)) notes.push_back(std::move(idle));
    add_record(config, report_of(prediction), json);
    json["trust"] = std::move(step["trust"]);
  } else {
    json["prediction"] = without_ranks(to_json(report_of(prediction)));
  }
  for (const char* apart : {"config", "trust"}) step.erase(apart);
  json["fit"] = fit_json(fit_of(prediction));
  json["reinforcement"] = std::move(step);
  json["notes"] = notes;
  return json;
}

}  // namespace

OrderedJson predict_answer(const AskedConfig& asked, Detail detail) {
  std::vector<std::string> notes;
  const RunConfig config = config_of(asked, notes);
  if (config.reinforces() && asked.lengths.empty()) return phases_answer(config, detail, std::move(notes));
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
    add_record(config, whole_report(prediction, config, step, hardware), json);
    json["trust"] = trust_json(config, hardware, prediction);
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
