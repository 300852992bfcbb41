// `plumbline predict`: memory and time of one configuration from the analytical model and a simulation.
#include <fmt/format.h>

#include <ctime>
#include <memory>
#include <optional>
#include <vector>

#include "analysis/predict/context_advice.hpp"
#include "analysis/predict/dynamic_context.hpp"
#include "analysis/predict/packed_sequences.hpp"
#include "analysis/predict/prediction_rows.hpp"
#include "analysis/predict/shape_warnings.hpp"
#include "analysis/predict/vocabulary_advice.hpp"
#include "analysis/reinforcement/fitting_change.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/config_options.hpp"
#include "bench/commands/number_range.hpp"
#include "bench/commands/predict/predict_files.hpp"
#include "bench/commands/predict/predict_vary.hpp"
#include "bench/evaluate/evaluation.hpp"
#include "bench/evaluate/profile_trust.hpp"
#include "bench/plan/keys_without_effect.hpp"
#include "bench/plan/packed_data.hpp"
#include "bench/plan/plan.hpp"
#include "bench/plan/prediction_parts.hpp"
#include "bench/plan/what_would_fit.hpp"
#include "bench/show/text/progress.hpp"
#include "bench/show/text/still_working.hpp"
#include "bench/show/text/wrap.hpp"
#include "bench/show/views/cost_table.hpp"
#include "bench/show/views/generation_summary.hpp"
#include "bench/show/views/predict_formulas.hpp"
#include "bench/show/views/prediction_summary.hpp"
#include "bench/show/views/prediction_trust.hpp"
#include "bench/show/views/reinforcement/phase_timeline.hpp"
#include "bench/show/views/reinforcement/reinforcement_summary.hpp"
#include "bench/show/views/routing_report.hpp"
#include "bench/show/views/sensitivity_report.hpp"
#include "bench/show/views/side_by_side.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/output_json.hpp"
#include "core/base/standard_streams.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

/// Notes on keys of the model's file that predictions simplify.
std::vector<std::string> notes_about(const RunConfig& config) {
  std::vector<std::string> notes;
  const auto add = [&](const char* key, const ModelConfig& model) {
    if (!model.rotary.scaling.predicted_type.empty()) {
      notes.push_back(
          fmt::format("{}: rope_type {} does not change the prediction; `run` executes default and llama3",
                      key, model.rotary.scaling.predicted_type));
    }
    if (model.predicted.vision && config.batch.images_per_sequence > 0) {
      notes.push_back(fmt::format("{}: with its vision tower, {} parameters; image tokens of a sequence: {}",
                                  key, model.predicted.vision.parameters(),
                                  config.batch.images_per_sequence * config.batch.image_tokens));
    } else if (!model.source.left_out.empty()) {
      notes.push_back(fmt::format("{}: text model only, {} is left out{}", key, model.source.left_out,
                                  model.predicted.vision ? "; images_per_sequence: 1 adds its tower" : ""));
    }
    if (!model.predicted.names.empty())
      notes.push_back(fmt::format("{}: predicted and not executed by `run`: {}", key, model.predicted.names));
    if (model.latent && model.latent.query_rank == 0)
      notes.push_back(
          fmt::format("{}: queries without compression (q_lora_rank null) are not executed by `run`", key));
  };
  add("model", config.model);
  if (config.distillation.teacher) add("teacher", *config.distillation.teacher);
  return notes;
}

struct PredictOptions {
  ConfigOptions config;
  PredictFiles files;
  VaryOptions vary;
  std::string parameters;  // a number of parameters in place of a configuration
  std::string lengths;     // a file: tokens of documents that are packed into sequences
  int routings = 0;
  bool json = false;
  bool quiet = false;
  bool explain = false;
  bool what_limits = false;
};

/// Options of a training step's prediction that other tasks have no figures for.
void check_options_of_task(const PredictOptions& options, RunTask task) {
  const std::pair<bool, const char*> given[] = {
      {!options.lengths.empty(), "--sequence-lengths"},
      {options.routings > 0, "--routings"},
      {options.files.timeline, "--timeline"},
      {!options.files.svg.empty() && task == RunTask::generate, "--svg"},
      {!options.files.trace.empty() && task == RunTask::generate, "--trace"},
      {options.what_limits, "--what-limits"}};
  for (const auto& [is, name] : given) {
    if (is) {
      throw InputError(
          fmt::format("predict: found {} with task {}, expected task train; leave one of them out", name,
                      task_name(task)));
    }
  }
}

int predict_one_generation(const PredictOptions& options, const RunConfig& config) {
  check_options_of_task(options, config.generation.task);
  if (const auto reason = why_generation_invalid(config)) throw InputError(*reason);
  if (const auto missing = why_unpredictable(config)) throw InputError(*missing);
  std::string note;
  const HardwareProfile hardware = hardware_of(config, note);
  const GenerationPrediction prediction = predict_generation(config, hardware);
  if (!note.empty()) say(fmt::format("note: {}\n", note));
  for (const std::string& idle : keys_without_effect(config)) say(fmt::format("note: {}\n", idle));
  if (options.json) {
    fmt::print("{}\n", output_json(generation_json(config, hardware, prediction), 2));
  } else {
    fmt::print("{}", within_terminal(generation_text(config, hardware, prediction)));
    if (options.explain) fmt::print("{}", cost_table(prediction.lines));
  }
  return static_cast<int>(prediction.fits ? ExitCode::done : ExitCode::does_not_fit);
}

/// The phases as a picture and for trace viewers.
void draw_phases(const PredictFiles& files, const RunConfig& config, const ReinforcementPrediction& made) {
  if (!files.svg.empty())
    write_whole_file(files.svg, phases_svg(config, {{"predicted", made.phases}}, made.limit));
  if (!files.trace.empty()) write_whole_file(files.trace, phases_trace(config, {{"predicted", made.phases}}));
}

int predict_one_reinforcement(const PredictOptions& options, const RunConfig& config) {
  check_options_of_task(options, config.generation.task);
  check_places(options.files);
  check_phases_trace(config, options.files.trace);
  std::string note;
  const HardwareProfile hardware = hardware_of(config, note);
  const ReinforcementPrediction prediction = predict_reinforcement(config, hardware, step_for);
  if (!note.empty()) say(fmt::format("note: {}\n", note));
  for (const std::string& idle : keys_without_effect(config)) say(fmt::format("note: {}\n", idle));
  if (options.json)
    fmt::print("{}\n", output_json(reinforcement_json(config, hardware, prediction), 2));
  else
    fmt::print("{}", within_terminal(reinforcement_text(config, hardware, prediction)));
  draw_phases(options.files, config, prediction);
  if (!prediction.fits) {
    const std::optional<std::string> change = fitting_change(config, hardware, step_for);
    say(fmt::format("plumbline: phase {} does not fit; {}\n", prediction.phases[prediction.fullest].name,
                    change ? "change " + *change : "no single change of keys that were tried fits"));
  }
  return static_cast<int>(prediction.fits ? ExitCode::done : ExitCode::does_not_fit);
}

/// Lengths of --sequence-lengths, or of the chats of packed_sequence, and their work; else nothing.
void take_lengths(const PredictOptions& options, RunConfig& config, PackedDocuments& documents) {
  const bool packs = config.batch.packed_sequence;
  if (packs && !options.lengths.empty()) {
    throw InputError(
        "predict: found --sequence-lengths with packed_sequence, expected one of them; leave the option out");
  }
  if (!packs && options.lengths.empty()) return;
  if (const auto reason = why_invalid(config)) throw InputError(*reason);
  documents.packed =
      packs ? read_packed_chats(config) : read_sequence_lengths(options.lengths, config.batch.seq_length);
  documents.work = work_of_chats(documents.packed, config);
  config.batch.packed = documents.work.attention;
}

int predict_one(const PredictOptions& options) {
  RunConfig config = options.config.load_with_notes();
  if (config.generation.on()) return predict_one_generation(options, config);
  if (config.reinforces()) return predict_one_reinforcement(options, config);
  check_places(options.files);
  PackedDocuments documents;
  take_lengths(options, config, documents);
  Record record = start_record("predict", config, Asked::prediction);
  if (record.status != Status::ok) throw InputError(record.reason);
  std::string note;
  StillWorking working("building the schedule", options.quiet ? nullptr : stderr);
  const RepeatedSchedule step = step_for(config);
  const Schedule& schedule = step.once;
  const HardwareProfile hardware = hardware_of(config, note);
  working.now("simulating the step");
  const Prediction prediction = predict(config, step, hardware);
  working.now("computing the report");
  record.prediction = whole_report(prediction, config, step, hardware);
  if (!note.empty()) say(fmt::format("note: {}\n", note));
  for (const std::string& simplified : notes_about(config)) say(fmt::format("note: {}\n", simplified));
  for (const std::string& warning : shape_warnings(config, hardware)) say(fmt::format("note: {}\n", warning));
  for (const std::string& doubt : doubts_about(hardware, record.machine, std::time(nullptr), false))
    say(fmt::format("note: {}\n", doubt));
  for (const std::string& lacked : predicted_as_if(config, hardware)) say(fmt::format("note: {}\n", lacked));
  for (const std::string& idle : keys_without_effect(config)) say(fmt::format("note: {}\n", idle));
  if (const auto idle = why_receives_change_nothing(config, step, prediction.memory))
    say(fmt::format("note: {}\n", *idle));
  std::optional<RoutingInterval> routings;
  if (options.routings > 0) {
    working.now("drawing routings");
    routings = routing_interval(config, options.routings, prediction.fit.budget);
  }
  working.now("drawing the timeline");
  const std::string timeline = draw(options.files, config, step, prediction, hardware);
  const FormulaReport formulas = compare_with_formulas(config, schedule, prediction.memory);
  if (options.json) {
    OrderedJson json = to_json(record);
    json["formulas"] = to_json(formulas);
    json["trust"] = trust_json(config, hardware, prediction);
    if (!documents.packed.lengths.empty()) json["sequence_lengths"] = to_json(documents);
    if (routings) json["routings"] = to_json(*routings);
    if (options.what_limits) working.now("computing sensitivities");
    if (options.what_limits) json["what_limits"] = OrderedJson::parse(what_limits_json(config));
    fmt::print("{}\n", output_json(json, 2));
  } else {
    std::string text = prediction_summary(
        config, record, prediction, comparable_figures(config, hardware, prediction), terminal_width(stdout));
    text += side_by_side(record) + trust_text(config, hardware, prediction);
    if (!documents.packed.lengths.empty()) text += describe(documents.packed, documents.work);
    if (routings) text += describe(*routings, config, prediction.fit.budget);
    text += vocabulary_report(config, schedule, prediction, hardware, schedule_for);
    text += context_report(config, step, prediction, hardware);
    if (options.explain) {
      text += cost_table(prediction.lines) + to_text(formulas);
      text += fmt::format("\n{}\n",
                          explain_throughput(config, prediction.throughput, schedule.stages_per_route()));
    }
    fmt::print("{}", within_terminal(text));
    fmt::print("{}", timeline);
    if (options.what_limits) working.now("computing sensitivities");
    if (options.what_limits) fmt::print("\n{}", within_terminal(what_limits_text(config)));
  }
  if (!prediction.fit.fits) {
    working.now("searching changes that fit");
    say(fmt::format("plumbline: {}\n", what_would_fit(config, hardware, prediction.fit)));
  }
  return static_cast<int>(prediction.fit.fits ? ExitCode::done : ExitCode::does_not_fit);
}

/// Options that show one configuration exclude those that compare several.
void check_vary(const PredictOptions& options) {
  const std::pair<bool, const char*> one[] = {{!options.parameters.empty(), "--parameters"},
                                              {!options.lengths.empty(), "--sequence-lengths"},
                                              {options.routings > 0, "--routings"},
                                              {options.files.timeline, "--timeline"},
                                              {!options.files.svg.empty(), "--svg"},
                                              {!options.files.trace.empty(), "--trace"},
                                              {options.explain, "--explain"},
                                              {options.what_limits, "--what-limits"}};
  for (const auto& [is, name] : one) {
    if (is)
      throw InputError(
          fmt::format("{}: found with {}, expected one of them; leave one out", options.vary.given(), name));
  }
}

int predict_command(const PredictOptions& options) {
  if (options.vary.given() != nullptr) check_vary(options);
  if (options.parameters.empty() && options.config.source.empty() && !options.config.gives("model")) {
    throw InputError(
        "predict: found no model, expected CONFIG (a YAML file, a preset such as qwen2.5-0.5b, a Hugging "
        "Face "
        "folder), --model, or --parameters N for model states alone");
  }
  if (!options.lengths.empty() && (options.what_limits || !options.parameters.empty())) {
    throw InputError(
        fmt::format("predict: found --sequence-lengths with {}, expected one of them: lengths are those of "
                    "one configuration",
                    options.what_limits ? "--what-limits" : "--parameters"));
  }
  if (options.vary.given() != nullptr)
    return predict_varied(options.config, options.vary, options.json, options.quiet);
  if (options.parameters.empty()) return predict_one(options);
  if (options.files.timeline || !options.files.svg.empty() || !options.files.trace.empty()) {
    throw InputError(
        "predict: found --parameters with --timeline, --svg or --trace, expected a CONFIG for those: model "
        "states alone have no step");
  }
  if (!options.config.source.empty()) {
    throw InputError(
        "predict: found both CONFIG and --parameters, expected one of them, for example --parameters 7.5e9 "
        "--dp 64");
  }
  fmt::print("{}", print_model_states(options.parameters, options.config.overrides(), options.json));
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_predict_command(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand("predict", "Predict memory and time of one configuration");
  const auto options = std::make_shared<PredictOptions>();
  add_config_options(*command, options->config);
  command
      ->add_option("--parameters", options->parameters,
                   "Model states of N parameters under every ZeRO stage, without CONFIG; takes --dp, "
                   "--precision, --grad-dtype and --optimizer")
      ->type_name("N");
  command
      ->add_option("--sequence-lengths", options->lengths,
                   "File of document lengths in tokens, one per line: packed sequences, attention within "
                   "each document")
      ->type_name("FILE");
  command
      ->add_option("--routings", options->routings,
                   "Random routings of an MoE model, to show the distribution of peak memory")
      ->type_name("N")
      ->check(number_from(500, 1'000'000));
  auto* json =
      command->add_flag("--json", options->json, "Print the record as JSON, with the memory formulas");
  add_vary_options(*command, options->vary);
  add_timeline_options(*command, options->files, json);
  command->add_flag("--explain", options->explain,
                    "Print the predicted time of every operator and published memory formulas");
  command->add_flag(
      "--what-limits", options->what_limits,
      "Print the sensitivity of the step time to every hardware constant and single configuration change");
  command->footer([] {
    return fmt::format("Accelerators for --hardware: {}", fmt::join(hardware_preset_names(), ", "));
  });
  command->callback([options, &app, &action] {
    options->quiet = is_quiet(app);
    action = [options] { return predict_command(*options); };
  });
}

}  // namespace plumbline
