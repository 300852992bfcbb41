#include "bench/ask/search_answer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/profiles/software_arguments.hpp"
#include "analysis/predict/context_advice.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/step/software_of.hpp"
#include "bench/ask/fixed_keys.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/base/shell_word.hpp"
#include "core/base/text_input.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

/// True if a key of the question gives this one, by any of its names.
bool gives(const SearchQuestion& question, std::string_view name) {
  return std::ranges::any_of(question.keys, [&](const Override& each) {
    const ConfigKey* key = find_config_key(each.key);
    return key != nullptr && key->name == name;
  });
}

/// More accelerators until something fits, or nothing after three doublings.
std::string accelerators_that_fit(SearchRequest request, const HardwareProfile& hardware) {
  request.top = 1;
  for (int doubling = 0; doubling < 3; ++doubling) {
    request.config.parallel.world_size *= 2;
    try {
      const SearchResult more = search(request, hardware, step_for);
      if (!more.best.empty()) {
        return fmt::format("{} accelerators are enough ({})", request.config.parallel.world_size,
                           describe_candidate(more.best[0]));
      }
    } catch (const InputError&) {
      break;  // the batch or the heads do not allow this many
    }
  }
  return "use a smaller model, sequence or batch";
}

/// Results of the other cp_comm_types for the best candidate.
std::string ways_of_best(RunConfig config, const Candidate& best, const HardwareProfile& hardware) {
  set_keys(best.keys, config);
  if (config.parallel.context == 1) return "";
  const Schedule schedule = schedule_for(config);
  return context_report(config, schedule, predict(config, schedule, hardware), hardware);
}

/// Key that no candidate has, since a software either pads the vocabulary or does not.
constexpr const char* kPaddedVocabulary = "make_vocab_size_divisible_by";

double in_gib(Bytes bytes) {
  return static_cast<double>(bytes.value) / kBytesPerGiB;
}

/// Throws InputError for a configuration that no search takes.
void check_searched(const SearchQuestion& question, const RunConfig& config) {
  if (!gives(question, "world_size") && config.parallel.world_size == 1) {
    throw InputError("search: --gpus: missing; expected the number of accelerators that there are");
  }
  if (config.distillation.teacher) {
    throw InputError(fmt::format(
        "search: teacher: found {}; expected none, distillation is not searched; remove the key, or give "
        "one configuration to `predict`",
        printable(config.distillation.teacher->name)));
  }
  if (config.machine.hardware.empty()) {
    throw InputError(
        fmt::format("search: --hardware: missing; expected the accelerators that there are, one of {}",
                    fmt::join(hardware_preset_names(), ", ")));
  }
}

}  // namespace

RunConfig searched_config(const SearchQuestion& question, RunConfig config) {
  if (!software_arguments(config.machine.software).pads_vocabulary && !gives(question, kPaddedVocabulary))
    config.parallel.make_vocab_size_divisible_by = 1;
  return config;
}

std::string predict_command(const SearchQuestion& asked, const RunConfig& config, const RunConfig& base,
                            const Candidate& candidate) {
  const auto settings = settings_of(candidate);
  std::string command = "plumbline predict";
  if (!asked.source.empty()) command += " " + pasted_word(asked.source);
  const auto add = [&](const ConfigKey& key, const std::string& value) {
    command += fmt::format(" --{} {}", key.alias.empty() ? key.flag() : key.alias, pasted_word(value));
  };
  for (const Override& given : asked.keys) {
    const ConfigKey& key = get_config_key(given.key, "search");
    const bool searched =
        std::ranges::any_of(settings, [&](const auto& each) { return each.first == key.name; });
    if (!searched) add(key, given.value);
  }
  if (!gives(asked, "world_size"))
    add(*find_config_key("world_size"), std::to_string(config.parallel.world_size));
  const ConfigKey& padding = *find_config_key(kPaddedVocabulary);
  if (padding.print(base) != padding.print(config)) add(padding, padding.print(base));
  for (const auto& [name, value] : settings) {
    const ConfigKey& key = *find_config_key(name);
    if (name == "data_parallel_size" || gives(asked, name) || key.print(config) != value) add(key, value);
  }
  return command;
}

void check_numbers(const SearchQuestion& question) {
  if (question.top < 1 || question.top > 10000) {
    throw InputError(fmt::format("search: --top {}: expected 1 to 10000", question.top));
  }
  if (question.most_context && (*question.most_context < 1 || *question.most_context > 4096)) {
    throw InputError(fmt::format("search: --max-cp {}: expected 1 to 4096", *question.most_context));
  }
  if (question.most_experts < 0 || question.most_experts > 4096) {
    throw InputError(
        fmt::format("search: --max-ep {}: expected 1 to 4096, or 0 for as many as the model has experts",
                    question.most_experts));
  }
}

SearchAnswer answer_search(const SearchQuestion& question, const RunConfig& given,
                           const std::function<void(int, int)>& progress) {
  check_searched(question, given);
  const RunConfig config = searched_config(question, given);
  const HardwareProfile hardware = load_hardware(config.machine.hardware);
  if (const auto reason = why_unpredictable(config)) throw InputError(fmt::format("search: {}", *reason));
  RunConfig checked = config;  // candidates are balanced where stages do not divide the layers
  if (!gives(question, "layer_distribution")) checked.parallel.pp.layer_distribution = "balanced";
  if (const auto reason = why_unpredictable(checked, hardware))
    throw InputError(fmt::format("search: {}", *reason));
  SearchRequest request;
  request.config = config;
  request.top = question.top;
  request.limits.expert = question.most_experts;
  request.limits.context = question.most_context.value_or(
      std::max(context_for_sequence(config.batch.seq_length), config.parallel.context));
  request.threads = question.threads > 0
                        ? std::min(question.threads, 256)
                        : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const FixedKeys fixed = fixed_keys(question.keys, config);
  request.wanted = fixed.wanted;
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds_so_far = [begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  request.stopped = question.stopped;
  request.deadline_s = question.deadline_s;
  request.found = question.found;
  const SearchResult result = search(request, hardware, step_for, progress);
  const double seconds = seconds_so_far();
  if (!result.complete && result.best.empty()) {
    throw Error(fmt::format("search: stopped after {:.3g} s among {} configurations, of which none fits; "
                            "expected more time; raise deadline_s (--deadline), or cancel later",
                            seconds, result.configurations),
                ExitCode::timed_out);
  }
  if (result.configurations == 0) {
    throw InputError(
        fmt::format("search: --gpus: found {}, on which no configuration{} is valid, expected a number that "
                    "sizes of the model divide; change --gpus or the batch{}{}",
                    config.parallel.world_size, fixed.given.empty() ? "" : " with " + fixed.given,
                    fixed.given.empty() ? "" : ", or remove one of these keys",
                    result.refused.empty() ? "" : ": " + result.refused));
  }
  const Fit limit = result.front.front().fit;
  if (result.best.empty()) {
    const Candidate& least = result.front.front();
    const std::string smallest =
        fmt::format("the smallest takes {:.2f} GiB{} ({})", in_gib(least.fit.needed),
                    limit.by_device ? " of device memory with its margin" : "", describe_candidate(least));
    throw OutOfMemory(fmt::format(
        "search: none of {} configurations fits in {:.2f} GiB per accelerator: {}; {}", result.configurations,
        in_gib(limit.limit), smallest, accelerators_that_fit(request, hardware)));
  }
  SearchContext context{
      config.machine.software,
      config.machine.hardware,
      limit.limit,
      limit.by_device,
      seconds,
      request.limits.context,
      request.limits.expert,
      ways_of_best(config, result.best.front(), hardware),
      [question, given, config](const Candidate& c) { return predict_command(question, given, config, c); }};
  if (hardware.accelerator() != nullptr) {
    context.steps = ComparableRuns(known_runs(), kind_of(config, hardware), "step_s").interval();
    const auto peaks =
        std::make_shared<ComparableRuns>(known_runs(), kind_of(config, hardware), "peak_bytes");
    const bool exact = config.machine.own_step() || !peaks->interval();
    context.verdict = [peaks, exact](const Fit& fit) {
      return verdict_of(fit, exact ? std::nullopt : std::optional(peaks->share_beyond(fit)));
    };
  }
  return {config, result, std::move(context)};
}

}  // namespace plumbline
