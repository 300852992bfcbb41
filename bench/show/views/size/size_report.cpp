#include "bench/show/views/size/size_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "bench/show/text/csv.hpp"
#include "bench/show/text/figures.hpp"
#include "bench/show/text/text_table.hpp"
#include "bench/show/views/search_report.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/escaped_controls.hpp"

namespace plumbline {
namespace {

struct HoursPart {
  const char* key;
  const char* title;
  double GpuHours::*hours;
};
constexpr HoursPart kHours[] = {
    {"compute", "compute", &GpuHours::compute},
    {"exposed_tensor", "exposed TP/CP/EP communication", &GpuHours::tensor},
    {"exposed_pipeline", "pipeline bubble", &GpuHours::pipeline},
    {"exposed_data", "exposed DP communication", &GpuHours::data},
    {"optimizer", "optimizer", &GpuHours::optimizer},
    {"slow_machines", "slow machines", &GpuHours::slow},
    {"failures", "failures and checkpoints", &GpuHours::failures},
};

/// "15.6T", "300B".
std::string short_tokens(double tokens) {
  return tokens >= 1e12 ? fmt::format("{:g}T", tokens / 1e12) : fmt::format("{:g}B", tokens / 1e9);
}

std::string whole(double value) {
  return grouped_digits(value);
}

double low_of(const SizedJob& job) {
  return job.spread ? job.spread->days.low : job.days;
}

double high_of(const SizedJob& job) {
  return job.spread ? job.spread->days.high : job.days;
}

std::string interval_text(const SizedJob& job) {
  return job.interval ? fmt::format("{:.1f} to {:.1f}", low_of(job), high_of(job)) : "-";
}

double tokens_per_second(const SizeAnswer& answer, const SizedJob& job) {
  return answer.tokens / job.days / 86400;
}

std::string batch_text(const BatchRange& batch) {
  return batch.least == batch.most ? whole(batch.most)
                                   : fmt::format("{} to {}", whole(batch.least), whole(batch.most));
}

std::string header(const SizeAnswer& answer) {
  const RunConfig& config = answer.config;
  std::string text = fmt::format(
      "{}, {} parameters: {} tokens{}; software {}, sequences of {} tokens, {} a step\n",
      printable(config.model.name), prefixed_number(static_cast<double>(config.model.parameters())),
      short_tokens(answer.tokens), answer.days ? fmt::format(" in {:g} days", *answer.days) : "",
      printable(config.machine.software), whole(static_cast<double>(config.batch.seq_length)),
      batch_text(answer.batch));
  text += fmt::format("failures of {}, checkpoint {}; sized in {:.1f} s{}\n", answer.job.fleet.name,
                      readable_bytes(static_cast<double>(answer.job.checkpoint.size.value)), answer.seconds,
                      answer.complete ? "" : ", ended by --deadline: more or fewer GPUs may do better");
  return text;
}

std::string cost_text(const SizedJob& job) {
  if (!job.cost) return "";
  const bool known = job.spread && job.spread->cost;
  return fmt::format(
      ", cost {}{}", whole(*job.cost),
      known ? fmt::format(" ({} to {})", whole(job.spread->cost->low), whole(job.spread->cost->high)) : "");
}

std::string job_line(const char* title, const SizedHardware& on, const SizedJob& job) {
  return fmt::format("{}: {} {}: {:.1f} days{}, {} GPU-hours{}\n", title, whole(job.gpus), on.name, job.days,
                     job.interval ? fmt::format(" (comparable runs {})", interval_text(job)) : "",
                     whole(job.hours.sum()), cost_text(job));
}

std::string parts_line(const SizedJob& job) {
  std::vector<std::string> parts;
  for (const HoursPart& part : kHours)
    parts.push_back(
        fmt::format("{} {:.1f} %", part.title, std::max(0.0, 100 * job.hours.*part.hours / job.hours.sum())));
  return fmt::format("  GPU-hours: {}\n", fmt::join(parts, ", "));
}

/// Fewest GPUs of every accelerator, with the ends of the interval.
std::string by_hardware(const SizeAnswer& answer) {
  std::string text =
      fmt::format("\n{:<20} {:>10}  {}\n", "hardware", "fewest", "if steps are as in comparable runs");
  for (const SizedHardware& each : answer.hardware) {
    const Sizing& sizing = each.sizing;
    const auto known = [](int gpus) { return gpus > 0 ? whole(gpus) : std::string("none"); };
    const bool interval = sizing.fewest_if_short > 0 || sizing.fewest_if_long > 0;
    text += fmt::format(
        "{:<20} {:>10}  {}\n", each.name, known(sizing.fewest),
        interval ? fmt::format("{} to {}", known(sizing.fewest_if_short), known(sizing.fewest_if_long))
                 : "-");
    if (sizing.fewest == 0 && !sizing.why.empty()) text += fmt::format("  {}\n", printable(sizing.why, 400));
  }
  return text;
}

std::string table(const SizeAnswer& answer, int width) {
  const bool priced =
      std::ranges::any_of(answer.hardware, [](const SizedHardware& each) { return each.price.has_value(); });
  TextTable table;
  table.column("hardware", true);
  for (const char* title : {"GPUs", "days", "80 % interval", "GPU-hours"}) table.column(title);
  if (priced) table.column("cost");
  for (const char* title : {"goodput %", "MFU %", "tokens/s", "batch"}) table.column(title);
  table.column("configuration", true);
  for (const SizedHardware& each : answer.hardware) {
    for (const SizedJob& job : frontier_of(each.sizing.jobs)) {
      std::vector<std::string> cells = {each.name, whole(job.gpus), fmt::format("{:.1f}", job.days),
                                        interval_text(job), whole(job.hours.sum())};
      if (priced) cells.push_back(job.cost ? whole(*job.cost) : "-");
      const bool tight = job.verdict.word == Verdict::tight;
      cells.insert(cells.end(), {fmt::format("{:.1f}", 100 * job.effective),
                                 fmt::format("{:.1f}", 100 * job.layout.throughput.mfu),
                                 whole(tokens_per_second(answer, job)), fmt::format("{}", job.batch),
                                 fmt::format("{}{}{}{}", describe_candidate(job.layout),
                                             tight ? fmt::format(" ({})", job.verdict.text()) : "",
                                             job.gpus == each.sizing.fewest ? " <- fewest" : "",
                                             job.complete ? "" : " (search not ended)")});
      table.row(std::move(cells));
    }
  }
  return "\n" + table.text(width);
}

nlohmann::ordered_json job_json(const SizeAnswer& answer, const SizedHardware& on, const SizedJob& job) {
  nlohmann::ordered_json json = {{"hardware", on.name},
                                 {"gpus", job.gpus},
                                 {"days", job.days},
                                 {"gpu_hours", job.hours.sum()},
                                 {"effective", job.effective},
                                 {"step_s", job.layout.time.step.value},
                                 {"step_with_slow_machines_s", job.step.value},
                                 {"tokens_per_s", tokens_per_second(answer, job)},
                                 {"mfu", job.layout.throughput.mfu},
                                 {"global_batch_size", job.batch},
                                 {"complete", job.complete}};
  if (job.cost) json["cost"] = *job.cost;
  json["verdict"] = name_of(job.verdict.word);
  if (job.verdict.chance) json["chance"] = *job.verdict.chance;
  if (job.spread) {
    const auto ends = [](const Interval& range) {
      return nlohmann::ordered_json{{"low", range.low}, {"high", range.high}};
    };
    json["gpu_hours_interval"] = ends(job.spread->gpu_hours);
    if (job.spread->cost) json["cost_interval"] = ends(*job.spread->cost);
  }
  if (job.interval)
    json["days_interval"] = {{"low", low_of(job)},
                             {"high", high_of(job)},
                             {"rows", job.interval->rows},
                             {"sources", job.interval->origins}};
  for (const HoursPart& part : kHours) json["hours"][part.key] = job.hours.*part.hours;
  json["command"] = on.command(job);
  return json;
}

}  // namespace

BestSizes best_sizes(const SizeAnswer& answer) {
  BestSizes best;
  for (const SizedHardware& hardware : answer.hardware) {
    for (const SizedJob& job : hardware.sizing.jobs) {
      if (answer.days && job.days > *answer.days) continue;
      if (best.fewest == nullptr || job.gpus < best.fewest->gpus ||
          (job.gpus == best.fewest->gpus && job.days < best.fewest->days)) {
        best.fewest = &job;
        best.fewest_on = &hardware;
      }
      if (job.cost && (best.cheapest == nullptr || *job.cost < *best.cheapest->cost)) {
        best.cheapest = &job;
        best.cheapest_on = &hardware;
      }
    }
  }
  return best;
}

std::string size_text(const SizeAnswer& answer, int width) {
  const BestSizes best = best_sizes(answer);
  std::string text = header(answer) + "\n";
  if (best.fewest == nullptr) {
    text +=
        answer.complete
            ? fmt::format("no number of GPUs up to {} ends in {:g} days; a larger batch divides over more\n",
                          whole(answer.most), answer.days.value_or(0))
            : fmt::format("no number of GPUs that ends in {:g} days was found before --deadline\n",
                          answer.days.value_or(0));
  } else {
    text += job_line(answer.days ? "fewest GPUs" : "time", *best.fewest_on, *best.fewest);
    text += parts_line(*best.fewest);
    if (best.cheapest != nullptr && best.cheapest != best.fewest) {
      text += job_line("least cost", *best.cheapest_on, *best.cheapest);
      text += parts_line(*best.cheapest);
    }
  }
  if (answer.days) text += by_hardware(answer);
  text += table(answer, width);
  if (best.fewest != nullptr) {
    text += "\ncommands:\n" + escaped_controls(best.fewest_on->command(*best.fewest)) + "\n";
    if (best.cheapest != nullptr && best.cheapest != best.fewest)
      text += escaped_controls(best.cheapest_on->command(*best.cheapest)) + "\n";
  }
  return text;
}

std::string size_csv(const SizeAnswer& answer) {
  std::string text =
      "hardware,gpus,days,days_low,days_high,gpu_hours,cost,effective,mfu,tokens_per_s,global_batch_size,"
      "in_time,complete,verdict,chance";
  for (const HoursPart& part : kHours) text += fmt::format(",{}_hours", part.key);
  text += ",configuration,command\n";
  for (const SizedHardware& each : answer.hardware) {
    for (const SizedJob& job : each.sizing.jobs) {
      text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}", csv_field(each.name), job.gpus,
                          job.days, job.interval ? fmt::format("{}", low_of(job)) : "",
                          job.interval ? fmt::format("{}", high_of(job)) : "", job.hours.sum(),
                          job.cost ? fmt::format("{}", *job.cost) : "", job.effective,
                          job.layout.throughput.mfu, tokens_per_second(answer, job), job.batch,
                          !answer.days || job.days <= *answer.days, job.complete, name_of(job.verdict.word),
                          job.verdict.chance ? fmt::format("{}", *job.verdict.chance) : "");
      for (const HoursPart& part : kHours) text += fmt::format(",{}", job.hours.*part.hours);
      text +=
          fmt::format(",{},{}\n", csv_field(describe_candidate(job.layout)), csv_field(each.command(job)));
    }
  }
  return text;
}

nlohmann::ordered_json size_json(const SizeAnswer& answer) {
  const BestSizes best = best_sizes(answer);
  nlohmann::ordered_json json = {{"model", answer.config.model.name},
                                 {"parameters", answer.config.model.parameters()},
                                 {"software", answer.config.machine.software},
                                 {"seq_length", answer.config.batch.seq_length},
                                 {"tokens", answer.tokens},
                                 {"days", nullptr},
                                 {"fleet", answer.job.fleet.name},
                                 {"checkpoint_bytes", answer.job.checkpoint.size.value},
                                 {"seconds", answer.seconds},
                                 {"complete", answer.complete}};
  if (answer.days) json["days"] = *answer.days;
  json["fewest"] =
      best.fewest != nullptr ? job_json(answer, *best.fewest_on, *best.fewest) : nlohmann::ordered_json();
  if (best.cheapest != nullptr) json["cheapest"] = job_json(answer, *best.cheapest_on, *best.cheapest);
  json["hardware"] = nlohmann::ordered_json::array();
  for (const SizedHardware& each : answer.hardware) {
    nlohmann::ordered_json one = {{"hardware", each.name},
                                  {"fewest", each.sizing.fewest},
                                  {"fewest_if_short", each.sizing.fewest_if_short},
                                  {"fewest_if_long", each.sizing.fewest_if_long}};
    if (each.price) one["gpu_hour_price"] = *each.price;
    if (!each.sizing.why.empty()) one["why"] = each.sizing.why;
    one["frontier"] = nlohmann::ordered_json::array();
    for (const SizedJob& job : frontier_of(each.sizing.jobs))
      one["frontier"].push_back(job_json(answer, each, job));
    json["hardware"].push_back(std::move(one));
  }
  return json;
}

std::string trainings_text(const std::vector<PublishedTraining>& trainings) {
  std::string text = fmt::format("{:<20} {:>8} {:>14} {:>12} {:>12} {:>7}  {}\n", "training", "GPUs",
                                 "hardware", "published h", "predicted h", "ratio", "comparable runs");
  for (const PublishedTraining& each : trainings) {
    const SizedJob& job = each.job();
    const std::string interval = job.interval
                                     ? fmt::format("{:.2f} to {:.2f}", each.ratio() * job.interval->low,
                                                   each.ratio() * job.interval->high)
                                     : "-";
    text += fmt::format("{:<20} {:>8} {:>14} {:>12} {:>12} {:>7.2f}  {}\n", each.name, whole(job.gpus),
                        each.answer.hardware.front().name, whole(each.gpu_hours), whole(job.hours.sum()),
                        each.ratio(), interval);
    text += parts_line(job);
    text += fmt::format("  {}; {}\n", describe_candidate(job.layout), each.source);
    text += fmt::format("  {} 15 %: {}\n", each.within() ? "within" : "outside", each.difference);
  }
  return text;
}

nlohmann::ordered_json trainings_json(const std::vector<PublishedTraining>& trainings) {
  auto list = nlohmann::ordered_json::array();
  for (const PublishedTraining& each : trainings) {
    nlohmann::ordered_json json = {{"training", each.name},
                                   {"source", each.source},
                                   {"published_gpu_hours", each.gpu_hours},
                                   {"ratio", each.ratio()}};
    json["within"] = each.within();
    json["difference"] = each.difference;
    json["predicted"] = job_json(each.answer, each.answer.hardware.front(), each.job());
    list.push_back(std::move(json));
  }
  return {{"trainings", std::move(list)}};
}

}  // namespace plumbline
