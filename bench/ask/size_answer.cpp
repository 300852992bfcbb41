#include "bench/ask/size_answer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/step/software_of.hpp"
#include "bench/ask/fixed_keys.hpp"
#include "bench/ask/search_answer.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/base/run_parallel.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kNoBatch = "global_batch_size is not given";

/// One accelerator, ready to be sized.
struct Prepared {
  SearchQuestion asked;
  RunConfig given;  // the question's
  SizeQuestion question;
  std::optional<double> price;
};

BatchRange batch_of(const SizeAsked& asked, const RunConfig& config) {
  const auto sequences = [&](double tokens) {
    return static_cast<int>(std::max(1.0, tokens / static_cast<double>(config.batch.seq_length)));
  };
  if (asked.batch) return *asked.batch;
  if (config.batch.global_batch_size > 1) {
    const int batch = static_cast<int>(config.batch.global_batch_size);
    return {batch, batch};
  }
  return {sequences(kUsualBatchTokens[0]), sequences(kUsualBatchTokens[1])};
}

std::optional<double> price_of(const SizeAsked& asked, const std::string& named, const std::string& full) {
  for (const HardwarePrice& price : asked.prices) {
    if (price.hardware == named || price.hardware == full) return price.gpu_hour;
  }
  return {};
}

void check_prices(const SizeAsked& asked, const std::vector<std::string>& full) {
  for (const HardwarePrice& price : asked.prices) {
    const bool known = std::ranges::find(asked.hardware, price.hardware) != asked.hardware.end() ||
                       std::ranges::find(full, price.hardware) != full.end();
    if (!known)
      throw InputError(fmt::format("size: --price: found {}, expected an accelerator of --hardware ({})",
                                   printable(price.hardware), fmt::join(full, ", ")));
  }
}

/// The lines of what was said about a configuration, each once.
void take_notes(const std::string& said, std::vector<std::string>& notes) {
  constexpr std::string_view kBetween = "\nnote: ";
  for (std::size_t begin = 0; begin < said.size();) {
    const std::size_t end = std::min(said.find(kBetween, begin), said.size());
    std::string note = said.substr(begin, end - begin);
    if (!note.starts_with(kNoBatch) && std::ranges::find(notes, note) == notes.end())
      notes.push_back(std::move(note));
    begin = end + kBetween.size();
  }
}

/// The configuration on one kind of accelerator; a batch of 0 is not given.
RunConfig read_config(const SizeAsked& asked, const std::string& hardware, std::vector<std::string>& notes) {
  AskedConfig config = asked.config;
  if (!hardware.empty()) config.keys.push_back({"hardware", hardware, "--hardware"});
  if (asked.gpus) config.keys.push_back({"world_size", std::to_string(*asked.gpus), "--gpus"});
  std::vector<std::string> found;
  RunConfig read = config_of(config, found);
  for (const std::string& said : found) {
    if (said.find(kNoBatch) != std::string::npos) read.batch.global_batch_size = 0;
    take_notes(said, notes);
  }
  if (read.machine.hardware.empty())
    throw InputError(fmt::format("size: --hardware: missing; expected accelerators, such as {}",
                                 fmt::join(hardware_preset_names(), ", ")));
  if (read.distillation.teacher)
    throw InputError("size: teacher: found one, expected none, distillation is not searched; remove the key");
  return read;
}

/// Balanced layers are tried where stages do not divide them.
void check_predictable(RunConfig config, const HardwareProfile& hardware) {
  if (const auto reason = why_unpredictable(config)) throw InputError(fmt::format("size: {}", *reason));
  config.parallel.pp.layer_distribution = "balanced";
  if (const auto reason = why_unpredictable(config, hardware))
    throw InputError(fmt::format("size: {}", *reason));
}

Prepared prepared(const SizeAsked& asked, const std::string& named, std::vector<std::string>& notes) {
  Prepared result;
  result.given = read_config(asked, named, notes);
  result.asked.source = asked.config.source;
  result.asked.keys = asked.config.keys;
  result.asked.keys.push_back({"hardware", result.given.machine.hardware});
  result.price = price_of(asked, named, result.given.machine.hardware);
  SizeQuestion& question = result.question;
  question.batch = batch_of(asked, result.given);
  result.given.batch.global_batch_size = question.batch.most;
  question.config = asked.fixed ? result.given : searched_config(result.asked, result.given);
  question.hardware = load_hardware(question.config.machine.hardware);
  question.fixed = asked.fixed;
  if (!asked.fixed) {
    check_predictable(question.config, question.hardware);
    question.wanted = fixed_keys(asked.config.keys, question.config).wanted;
  }
  question.make = step_for;
  question.tokens = asked.tokens;
  question.job = asked.job;
  if (question.job.checkpoint.size.value == 0)
    question.job.checkpoint.size = {kCheckpointBytesPerParameter * question.config.model.parameters()};
  question.job.prices.gpu_hour = result.price;
  question.limits.context =
      std::max(context_for_sequence(question.config.batch.seq_length), question.config.parallel.context);
  return result;
}

std::string command_of(const Prepared& of, const SizedJob& job) {
  SearchQuestion asked = of.asked;
  RunConfig given = of.given;
  given.parallel.world_size = job.gpus;
  given.batch.global_batch_size = job.batch;
  asked.keys.push_back({"world_size", std::to_string(job.gpus)});
  asked.keys.push_back({"global_batch_size", std::to_string(job.batch)});
  return predict_command(asked, given, searched_config(asked, given), job.layout);
}

void check(const SizeAsked& asked) {
  const auto refuse = [](const char* option, const std::string& found, const char* expected) {
    throw InputError(fmt::format("size: {}: found {}, expected {}", option, found, expected));
  };
  if (!(asked.tokens >= 1 && asked.tokens <= 1e18))
    refuse("--tokens", fmt::format("{:g}", asked.tokens), "1 to 1e18 tokens, such as 2T");
  if (asked.days.has_value() == asked.gpus.has_value())
    refuse("--days", asked.days ? "--gpus too" : "neither it nor --gpus", "one of them");
  if (asked.batch && (asked.batch->least < 1 || asked.batch->least > asked.batch->most))
    refuse("--gbs", fmt::format("{}:{}", asked.batch->least, asked.batch->most), "LEAST:MOST sequences");
}

std::vector<std::string> names_of(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

}  // namespace

GoodputRequest usual_job(const std::string& fleet) {
  constexpr BytesPerSecond kStorage{1e11};
  GoodputRequest job;
  job.fleet = load_fleet(fleet);
  job.checkpoint.write = kStorage;
  job.checkpoint.read = kStorage;
  job.recovery.detect = {60};
  job.recovery.restart = {162};
  return job;
}

void take_choices(SizeAsked& asked) {
  Overrides rest;
  for (const Override& each : asked.config.keys) {
    const ConfigKey* key = find_config_key(each.key);
    const std::string_view name = key != nullptr && !each.ignores ? std::string_view(key->name) : "";
    if (name == "hardware") {
      asked.hardware = names_of(each.value);
    } else if (name == "global_batch_size") {
      asked.batch = parse_batch(each.value, "global_batch_size");
    } else if (name == "world_size") {
      ConfigDraft draft;
      key->parse(draft, {each.value, each.origin, ""});
      asked.gpus = static_cast<int>(draft.world_size.value_or(1));
    } else {
      rest.push_back(each);
    }
  }
  asked.config.keys = std::move(rest);
}

SizeAnswer answer_size(const SizeAsked& asked, const SizedProgress& progress) {
  check(asked);
  SizeAnswer answer;
  std::vector<std::string> hardware = asked.hardware;
  if (hardware.empty()) hardware.emplace_back();
  std::vector<Prepared> all;
  std::vector<std::string> names;
  for (const std::string& named : hardware) {
    all.push_back(prepared(asked, named, answer.notes));
    names.push_back(all.back().given.machine.hardware);
  }
  check_prices(asked, names);
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds_so_far = [begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const auto stopped = [&] {
    return (asked.deadline_s > 0 && seconds_so_far() >= asked.deadline_s) ||
           (asked.stopped && asked.stopped());
  };
  const int threads = asked.threads > 0 ? std::min(asked.threads, 256)
                                        : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  // Also with fewer processors: a deadline then leaves no accelerator without an answer.
  constexpr int kMostWorkers = 16;
  const int workers = std::min(kMostWorkers, static_cast<int>(all.size()));
  answer.hardware.resize(all.size());
  std::mutex told;
  std::atomic<std::size_t> next{0};
  run_parallel(static_cast<std::size_t>(workers), [&](std::size_t) {
    for (std::size_t i = next++; i < all.size(); i = next++) {
      SizeQuestion& question = all[i].question;
      question.threads = std::max(1, threads / workers);
      question.stopped = stopped;
      // One count's search among all layouts may take a part of the time: others follow.
      constexpr double kCounts = 6;
      question.deadline_s = asked.deadline_s / (asked.days ? kCounts : 1);
      const SizeProgress tell = [&](int gpus, const std::optional<SizedJob>& job) {
        const std::lock_guard lock(told);
        if (progress) progress(names[i], gpus, job);
      };
      SizedHardware& sized = answer.hardware[i];
      sized.name = names[i];
      sized.price = all[i].price;
      sized.sizing = asked.days ? size_for_days(question, *asked.days, asked.most, tell)
                                : size_of_gpus(question, *asked.gpus, tell);
      sized.command = [of = all[i]](const SizedJob& job) { return command_of(of, job); };
    }
  });
  answer.tokens = asked.tokens;
  answer.days = asked.days;
  answer.most = asked.most;
  answer.config = all.front().question.config;
  answer.batch = all.front().question.batch;
  answer.job = all.front().question.job;
  answer.seconds = seconds_so_far();
  answer.complete = !stopped() && std::ranges::all_of(answer.hardware, [](const SizedHardware& each) {
    return std::ranges::all_of(each.sizing.jobs, &SizedJob::complete);
  });
  const bool none = std::ranges::all_of(answer.hardware,
                                        [](const SizedHardware& each) { return each.sizing.jobs.empty(); });
  if (none && !answer.complete)
    throw Error(fmt::format("size: stopped after {:.3g} s, before any layout was found; expected more time; "
                            "raise --deadline",
                            answer.seconds),
                ExitCode::timed_out);
  if (none)
    throw OutOfMemory(
        fmt::format("size: found no layout that fits, expected one; change --gpus, --gbs or the "
                    "sequence length: {}",
                    answer.hardware.front().sizing.why));
  return answer;
}

}  // namespace plumbline
