#include "bench/show/views/side_by_side.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/show/text/figures.hpp"
#include "bench/show/text/lane_titles.hpp"
#include "bench/show/views/cluster/slow_rank_lines.hpp"
#include "bench/show/views/comparison_sheet.hpp"
#include "bench/show/views/memory_rows.hpp"
#include "core/base/byte_text.hpp"

namespace plumbline {
namespace {

std::string as_number(double value) {
  return readable_number(value);
}
std::string as_percent(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.1f} %", 100 * value);
}
std::string known_time(double value) {
  return std::isnan(value) ? "-" : readable_time(value);
}
std::string as_fraction(double value) {
  return fmt::format("{:.4f}", value);
}

void time_rows(ComparisonSheet& sheet, bool split_vocabulary, bool offloads) {
  const auto time = [&](const char* indent, const Figure<StepTime>& figure) {
    sheet.row(
        indent + std::string(figure.title),
        [&](auto&, const StepTime& times, auto&) { return figure.of(times); },
        figure.unit == FigureUnit::seconds ? readable_time : as_fraction, figure.unit == FigureUnit::seconds);
  };
  time("", time_figure("step_s"));
  time("  ", time_figure("compute_s"));
  time("  ", time_figure("exposed_tensor_s"));
  time("  ", time_figure("exposed_pipeline_s"));
  if (split_vocabulary) time("    ", time_figure("exposed_vocabulary_s"));
  time("  ", time_figure("exposed_data_s"));
  if (offloads) time("  ", time_figure("exposed_offload_s"));
  time("  ", time_figure("optimizer_s"));
  time("", time_figure("bubble_fraction"));
  time("", time_figure("bubble_ratio"));
  for (const Figure<Throughput>* rate :
       {&throughput_figure("tokens_per_s"), &throughput_figure("tokens_per_s_per_gpu"),
        &throughput_figure("model_tflops_per_gpu")}) {
    sheet.row(
        std::string(rate->title), [=](auto&, auto&, const Throughput& t) { return rate->of(t); }, as_number);
  }
}

/// Each collective of vocabulary parallelism: its time in a step, its exposed time on a rank, and its overlap
/// with computation in the steady state.
void collective_rows(ComparisonSheet& sheet) {
  for (const VocabularyCall call : kAllVocabularyCalls) {
    const auto of = [call](const StepTime& time) {
      return time.vocabulary_collectives ? (*time.vocabulary_collectives)[static_cast<std::size_t>(call)]
                                         : CollectiveOverlap{{NAN}, {NAN}, {NAN}};
    };
    sheet.row(
        std::string(name_of(call)), [=](auto&, const StepTime& time, auto&) { return of(time).time.value; },
        known_time);
    sheet.row(
        "  exposed", [=](auto&, const StepTime& time, auto&) { return of(time).exposed.value; }, known_time);
    sheet.row(
        "  overlap in steady state", [=](auto&, const StepTime& time, auto&) { return of(time).overlapped; },
        as_percent, false);
  }
}

/// Each lane of either side: total time of its collectives or copies in a step, and the exposed part.
void lane_rows(ComparisonSheet& sheet, const Record& record) {
  const auto of = [&](const auto& part, std::size_t place, Seconds LaneTimes::*member) -> double {
    return part && part->lanes ? ((*part->lanes)[place].*member).value : NAN;
  };
  const auto row = [&](const std::string& title, std::size_t place, Seconds LaneTimes::*member) {
    sheet.pair(title, of(record.prediction, place, member), of(record.measurement, place, member),
               known_time);
  };
  for (std::size_t place = 0; place < kLanes; ++place) {
    const bool any = of(record.prediction, place, &LaneTimes::time) > 0 ||
                     of(record.measurement, place, &LaneTimes::time) > 0;
    if (!any) continue;
    const LaneGroup lane = lane_at(place);
    row(lane_title(lane), place, &LaneTimes::time);
    row("  exposed", place, &LaneTimes::exposed);
  }
}

/// MoE models: share of the tokens' choices that experts dropped, and the load of the busiest.
void expert_rows(ComparisonSheet& sheet, const Record& record) {
  const auto share = [](const auto& part) -> double {
    if (!part || part->expert_load.empty()) return NAN;
    return static_cast<double>(dropped_of(part->expert_load)) /
           static_cast<double>(std::max<std::int64_t>(1, tokens_of(part->expert_load)));
  };
  const auto busiest = [](const auto& part) -> double {
    double most = NAN;
    if (!part) return most;
    for (const ExpertLoadReport& layer : part->expert_load) {
      const std::int64_t sum = tokens_of({layer});
      if (sum == 0) continue;
      const double mean = static_cast<double>(sum) / static_cast<double>(layer.tokens.size());
      most = std::fmax(
          most, static_cast<double>(*std::max_element(layer.tokens.begin(), layer.tokens.end())) / mean);
    }
    return most;
  };
  sheet.pair("expert load, max/mean", busiest(record.prediction), busiest(record.measurement), as_number);
  sheet.pair("dropped tokens", share(record.prediction), share(record.measurement), as_percent);
}

/// Known figures of a run's steps; an emulated one may have neither times nor a loss.
std::string steps_line(const MeasurementReport& m) {
  std::string line = fmt::format("{} timed step{}", m.samples, m.samples == 1 ? "" : "s");
  if (std::isnan(m.step_min.value))
    return fmt::format("{} step{}, times not measured", m.samples, m.samples == 1 ? "" : "s");
  line += fmt::format(", {} to {}", readable_time(m.step_min.value), readable_time(m.step_max.value));
  if (std::isnan(m.loss)) return line;
  line += fmt::format("; loss {:.6f}", m.loss);
  for (std::size_t k = 0; k < m.module_losses.size(); ++k)
    line += fmt::format(", mtp_{} loss {:.6f}", k + 1, m.module_losses[k]);
  return line;
}

/// Empty: unavailable; the record says why.
std::string energy_line(const MeasurementReport& m) {
  if (!m.energy || std::isnan(m.energy->step_joule)) return "";
  const EnergyReport& energy = *m.energy;
  std::string line = fmt::format("energy: {} J per step, {} J per token", readable_number(energy.step_joule),
                                 readable_number(energy.token_joule));
  if (!std::isnan(energy.processors_watt))
    line += fmt::format("; processors {:.0f} W", energy.processors_watt);
  if (!std::isnan(energy.gpus_watt)) line += fmt::format("; GPUs {:.0f} W", energy.gpus_watt);
  for (const std::string& missing : energy.unavailable) line += "; without " + missing;
  return line;
}

/// The loss of every step, warm-up included; the middle of a long run is left to the record.
std::string losses_line(const MeasurementReport& m) {
  constexpr std::size_t kMostShown = 12;
  std::string line = "loss by step, warm-up included:";
  for (std::size_t step = 0; step < m.losses.size(); ++step) {
    const bool hidden =
        m.losses.size() > kMostShown && step >= kMostShown / 2 && step + kMostShown / 2 < m.losses.size();
    if (!hidden) line += fmt::format(" {:.6f}", m.losses[step]);
    if (hidden && step == kMostShown / 2) line += " ...";
  }
  return line;
}

/// With linear layers in FP8: whose peak utilisation is relative to.
std::string of_storage_type(const Record& record) {
  const auto value = [&](std::string_view name) {
    const auto found = std::ranges::find(record.config, name, [](const auto& key) { return key.first; });
    return found == record.config.end() ? std::string() : found->second;
  };
  const std::string format = value("fp8_format");
  return format.empty() || format == "none" ? "" : fmt::format(" of {}", value("precision"));
}

/// MFU and HFU with the numbers they come from. `of`: behind the peak.
void utilisation_lines(ComparisonSheet& sheet, const Throughput& throughput, const char* who,
                       const std::string& of) {
  const auto say = [&](const char* name, const char* what, double share) {
    if (std::isnan(share) || throughput.tokens_per_s_per_gpu <= 0) return;
    const double per_token = share * throughput.peak_tflops * 1e12 / throughput.tokens_per_s_per_gpu;
    sheet.say(fmt::format("{} {:.1f} % = {} {} GFLOP/token x {} tokens/s/GPU / {:.4g} TFLOP/s/GPU{} ({})",
                          name, 100 * share, readable_number(per_token / 1e9), what,
                          readable_number(throughput.tokens_per_s_per_gpu), throughput.peak_tflops, of, who));
  };
  say("MFU", "model", throughput.mfu);
  say("HFU", "executed", throughput.hfu);
}

/// The difference at current machine speed, and its relation to the noise.
void speed_lines(ComparisonSheet& sheet, const Record& record) {
  const auto between = [](const StepInterval& i) {
    return fmt::format("{} to {}", readable_time(i.low.value), readable_time(i.high.value));
  };
  if (record.prediction && record.prediction->step_interval) {
    sheet.say(fmt::format("predicted step time {}: range of machine speed during calibration",
                          between(*record.prediction->step_interval)));
  }
  if (record.probed && record.error) {
    const ByClass& speed = record.probed->speed;
    const double stretch = record.probed->stretch;
    const std::string shared =
        stretch < 1.005 ? ""
                        : fmt::format("; step {:.2f} times, other programs used the processors", stretch);
    sheet.say(
        fmt::format("predicted at current machine speed: step time {}, {:+.1f} % (time relative to "
                    "calibration: compute {:.2f}, "
                    "memory {:.2f}, bandwidth {:.2f}, messages {:.2f}, host {:.2f}{})",
                    readable_time(record.probed->time.step.value), 100 * record.error->probed_step_time,
                    speed.compute, speed.memory, speed.bandwidth, speed.messages, speed.host, shared));
  }
  if (!record.measurement || record.measurement->steps.empty()) return;
  const MeasurementReport& m = *record.measurement;
  const StepInterval measured = interval_of(m.steps);
  const bool overlap = record.prediction && record.prediction->step_interval &&
                       record.prediction->step_interval->low <= measured.high &&
                       measured.low <= record.prediction->step_interval->high;
  if (overlap)
    sheet.say(fmt::format("measured step time {}: the difference is within the noise", between(measured)));
  if (record.disturbed()) sheet.say(fmt::format("disturbed: {}", what_disturbed(m.disturbance)));
}

}  // namespace

std::string side_by_side(const Record& record) {
  if (!record.prediction && !record.measurement) {
    return fmt::format("{}: {}\n", name_of(record.status), record.reason);
  }
  ComparisonSheet sheet(record);
  const MemoryReport& memory = record.measurement ? record.measurement->memory : record.prediction->memory;
  memory_rows(sheet, memory.peak_rank);
  peak_lines(sheet, record, memory.peak_rank);
  device_rows(sheet, record);
  const auto given = [&](std::string_view name, std::string_view nothing) {
    return std::ranges::any_of(record.config,
                               [&](const auto& key) { return key.first == name && key.second != nothing; });
  };
  const bool split_vocabulary = given("vocab_parallel", "none");
  sheet.begin_times();
  time_rows(sheet, split_vocabulary, given("cpu_offloading_num_layers", "0"));
  if (split_vocabulary) collective_rows(sheet);
  lane_rows(sheet, record);
  sheet.end_times();
  expert_rows(sheet, record);
  speed_lines(sheet, record);
  if (record.prediction && record.prediction->times_guessed)
    sheet.say("predicted times are a guess: this machine is not calibrated and no accelerator is named");
  const bool timed = record.measurement && !std::isnan(record.measurement->time.step.value);
  const Throughput& throughput =
      timed || !record.prediction ? record.measurement->throughput : record.prediction->throughput;
  const bool guessed = record.prediction && record.prediction->times_guessed;
  utilisation_lines(sheet, throughput,
                    timed     ? "measured"
                    : guessed ? "guess"
                              : "predicted",
                    of_storage_type(record) + (guessed ? ", a guess" : ""));
  if (record.measurement) sheet.say(steps_line(*record.measurement));
  if (record.measurement) {
    if (const std::string line = energy_line(*record.measurement); !line.empty()) sheet.say(line);
  }
  if (record.measurement && record.measurement->losses.size() > 1)
    sheet.say(losses_line(*record.measurement));
  if (record.measurement) {
    for (const SlowRank& slow : slow_ranks_of(*record.measurement))
      sheet.say("slow: " + slow_rank_line(slow));
  }
  if (record.prediction && !record.prediction->fits) sheet.say(why_not_fitting(*record.prediction));
  if (record.status != Status::ok) sheet.say(fmt::format("{}: {}", name_of(record.status), record.reason));
  return sheet.take();
}

}  // namespace plumbline
