#include "bench/help/command_pages.hpp"

#include <algorithm>

namespace plumbline {
namespace {

using enum ExitCode;

const Described kConfigFile = {"CONFIG.yaml",
                               "A configuration: YAML with Megatron-LM's names; see `plumbline help "
                               "configuration`."};
const Described kMatrixFile = {
    "MATRIX.yaml",
    "A configuration with lists under `matrix:`, whose product are the cells; `include:` and "
    "`exclude:` add and take away cells. bench/matrices/ has some."};
const Described kProfile = {
    "~/.cache/plumbline/profile.json",
    "What `calibrate` measured ($XDG_CACHE_HOME/plumbline where that is set); used when a "
    "configuration names no hardware."};
const Described kResults = {
    "DIR/results.jsonl",
    "One record per cell, a JSON object on a line; results/README.md in the sources says what it "
    "holds. DIR/predictions.jsonl with --predict-only."};
const Described kTimelines = {"DIR/timelines/ID.json",
                              "The timelines of a cell; `compare --format html` draws them."};
const Described kCells = {"DIR/cells/ID.log", "What the ranks of a cell said that did not end well."};

std::vector<CommandPage> make_pages() {
  return {
      {"",
       {"plumbline predicts the memory, the step time and the pipeline bubble of a parallel training "
        "configuration of a "
        "language model, measures the same configuration with real kernels and real messages, and sets the "
        "two side by "
        "side, down to one action of one rank.",
        "Results go to standard output, progress and notes to standard error. Colour is used on a terminal "
        "only, and "
        "never when NO_COLOR is set."},
       {{"plumbline predict run.yaml --tp 2 --pp 2", "Memory and time of a configuration; nothing is run"},
        {"plumbline run run.yaml --pp 2 --timeline", "Measure it, and draw both timelines"},
        {"plumbline help run", "Everything about one command"},
        {"plumbline help bubble fraction", "What a word of the output means"}},
       {kProfile},
       {done, regressed, bad_input, does_not_fit, rank_failed, timed_out},
       {"configuration", "glossary"}},
      {"predict",
       {"Says what one configuration will cost, without running anything: memory by category on the rank "
        "that needs most, "
        "step time and where it goes, bubble and throughput. Memory is derived from what a training step "
        "allocates, action "
        "by action; time from the time of every operator and message of the hardware, put through a "
        "simulation of the very "
        "schedule that would be executed.",
        "The hardware is the configuration's, else this machine as `calibrate` measured it, else a rough "
        "guess, which a "
        "note says. With --parameters no configuration is needed: then the model states of so many "
        "parameters are printed "
        "for every ZeRO stage."},
       {{"plumbline predict run.yaml", "A configuration as its file has it"},
        {"plumbline predict run.yaml --tp 2 --pp 2 --zero-stage 1", "The same with other sizes"},
        {"plumbline predict run.yaml --explain",
         "With the time of every operator and the literature's memory formulas"},
        {"plumbline predict run.yaml --hardware h100-sxm-80gb --what-limits",
         "What the step time depends on"},
        {"plumbline predict --parameters 7.5e9 --dp 64",
         "Model states of 7.5 billion parameters on 64 accelerators"}},
       {kConfigFile, kProfile},
       {done, bad_input, does_not_fit},
       {"run", "search", "configuration"}},
      {"run",
       {"Measures one configuration and sets it beside its prediction. One process per rank is started under "
        "mpirun; "
        "operators, messages and memory are real (backend cpu or cuda), or take the time that a hardware "
        "profile says "
        "(backend emulated: exact bytes and the real order of everything, at full model size, on any "
        "machine).",
        "Under mpirun, srun or torchrun the process is a rank itself: world rank 0 then prints the "
        "measurement as JSON."},
       {{"plumbline run run.yaml --tp 2 --pp 2", "Four ranks"},
        {"plumbline run run.yaml --pp 2 --timeline", "Predicted and measured timeline in the terminal"},
        {"plumbline run run.yaml --pp 2 --trace pp2.pftrace", "Both timelines for ui.perfetto.dev"},
        {"plumbline run llama.yaml --backend emulated --hardware h100-sxm-80gb --tp 8 --pp 8 "
         "--emulated-time-factor 0",
         "64 ranks with the memory of H100s, as fast as this machine can"}},
       {kConfigFile, kProfile},
       {done, bad_input, does_not_fit, rank_failed, timed_out},
       {"predict", "matrix", "configuration"}},
      {"matrix",
       {"Predicts and measures every cell of a matrix, each in processes of its own, and prints a table. A "
        "cell that runs "
        "out of memory, fails or takes too long is recorded with the reason and the next one follows.",
        "A cell is on disk as soon as it is known. The same command goes on where an earlier one stopped, "
        "however that "
        "ended; only cells that are missing are run."},
       {{"plumbline matrix bench/matrices/demo.yaml --out demo", "Every cell of the demo"},
        {"plumbline matrix bench/matrices/demo.yaml --predict-only", "Predictions alone"},
        {"plumbline matrix bench/matrices/demo.yaml --out demo --retry", "Again what failed or timed out"}},
       {kMatrixFile, kResults, kTimelines, kCells},
       {done, bad_input, rank_failed},
       {"compare", "oom", "run", "configuration"}},
      {"compare",
       {"Shows the results of a matrix, predicted beside measured: as a table, for other programs, or as one "
        "page with "
        "charts and timelines that opens from disk without a network.",
        "With a second folder: compares NEW with DIR cell by cell. A step or a peak that grew by more than "
        "the tolerance is "
        "a loss and ends with 1; what shrank by more is reported too, since nothing gets better without a "
        "reason."},
       {{"plumbline compare demo", "The table again"},
        {"plumbline compare demo --format html", "The page, on standard output: add > report.html"},
        {"plumbline compare demo --format csv", "One row per cell for a spreadsheet"},
        {"plumbline compare before after --tolerance 5%",
         "Ends with 1 when something became slower or larger"}},
       {kResults, kTimelines},
       {done, regressed, bad_input},
       {"matrix", "oom"}},
      {"oom",
       {"Which cells of a matrix fit their memory: predicted, measured and, where the matrix file names what "
        "was published, "
        "published. Hypotheses in the matrix file are tried against the published outcome, and the table "
        "says how many "
        "cells each explains.",
        "Cells are run and kept as `matrix` does."},
       {{"plumbline oom bench/matrices/abeja_oom_small.yaml --predict-only",
         "What would fit; nothing is run"},
        {"plumbline oom bench/matrices/abeja_oom.yaml --out abeja", "The published table at its own size"}},
       {kMatrixFile, kResults},
       {done, bad_input, rank_failed},
       {"matrix", "compare", "predict"}},
      {"schedule",
       {"Prints a pipeline schedule: the ordered actions of every rank. NAME is a schedule that plumbline "
        "generates, or a "
        "file with one (PyTorch's pipeline CSV, or JSON).",
        "The pictures (timeline, svg, trace, perfetto) give one unit of time to a forward, an input gradient "
        "and a weight "
        "gradient of a rank each, and two to a whole backward."},
       {{"plumbline schedule 1f1b --pp 4 --microbatches 8", "One line of actions per rank"},
        {"plumbline schedule zb-v --pp 4 --microbatches 8 --format timeline", "Drawn in the terminal"},
        {"plumbline schedule interleaved --pp 4 --microbatches 8 --chunks 2 --transfers --format csv",
         "PyTorch's CSV with sends and receives"},
        {"plumbline schedule 1f1b --pp 8 --microbatches 32 --compare zb-h1,zb-v,dualpipev",
         "Bubble and memory of several schedules"}},
       {{"FILE.csv", "A schedule in PyTorch's form: one line per rank, cells <stage><type><micro-batch>."}},
       {done, bad_input},
       {"simulate", "glossary"}},
      {"simulate",
       {"Says how long a schedule takes when its actions take given times: makespan, bubble, how many "
        "micro-batches each "
        "rank holds, and the longest chain of actions that the makespan hangs on.",
        "A costs file names times in microseconds per stage: {\"stages\": [{\"forward_us\": 100, "
        "\"backward_us\": 200}], "
        "\"p2p_us\": 5}; one entry stands for all stages. Schedules with vocabulary passes take the times of "
        "their collectives as \"c0_us\" (broadcast of X), \"c1_us\" (all-gather of statistics), \"c2_us\" "
        "(all-reduce of dX), \"i1_us\" (all-reduce of the embedded tokens) and \"i2_us\" (broadcast of their "
        "gradient); how much of them runs beside computation in the steady state is said below the ranks."},
       {{"plumbline simulate --schedule zb-h1 --pp 4 --microbatches 8 --costs costs.json",
         "A schedule by name"},
        {"plumbline simulate mine.csv --costs costs.json --timeline",
         "A schedule from a file, drawn in the terminal"},
        {"plumbline simulate --schedule 1f1b --pp 4 --microbatches 8 --costs costs.json --compare zb-h1,zb-v",
         "Several schedules under the same costs"}},
       {{"COSTS.json", "Times of the actions; keys that a schedule does not use may be left out."}},
       {done, bad_input},
       {"schedule", "glossary"}},
      {"search",
       {"Goes through every legal configuration of a model on N accelerators (parallel sizes, schedule, ZeRO "
        "stage, "
        "recomputation, micro-batch), predicts each, leaves out what does not fit, and prints the fastest, "
        "and the front of "
        "step time against memory.",
        "Model, sequence length, global batch and hardware are those of the configuration."},
       {{"plumbline search run.yaml --gpus 64 --hardware h100-sxm-80gb", "The ten fastest on 64 H100s"},
        {"plumbline search run.yaml --gpus 8 --hardware a100-sxm-80gb --memory-budget 20GiB --top 3",
         "What fits in a quarter of the memory"}},
       {kConfigFile},
       {done, bad_input, does_not_fit},
       {"predict", "validate", "configuration"}},
      {"validate",
       {"Predicts runs that others measured and published, row by row, and prints for every table the mean "
        "error, the bias, "
        "and the regret: how much slower the configuration is that the prediction would choose than the best "
        "one measured."},
       {{"plumbline validate", "One line per table"},
        {"plumbline validate --rows", "Every row, predicted and published"},
        {"plumbline validate --tables results/published --json", "Tables of a folder, for a script"}},
       {{"results/published/*.csv",
         "The published tables with their sources; results/published/README.md has the columns."}},
       {done, bad_input},
       {"search", "predict"}},
      {"calibrate",
       {"Measures the operators and messages of this machine and writes a hardware profile, so that "
        "predicted times are "
        "those of this machine. Takes about a minute; nothing else should run meanwhile.",
        "With --backend cuda: what a process takes of its GPU beside tensors (context, cuBLASLt, kernels, "
        "NCCL), "
        "put into the profile of the accelerator, ~/.cache/plumbline/profile-cuda.json; backend cuda uses it "
        "where a configuration names no hardware."},
       {{"plumbline calibrate", "Once per machine"},
        {"plumbline calibrate --out here.json", "A profile to name in a configuration: hardware: here.json"},
        {"plumbline calibrate --backend cuda", "Once per machine with a GPU"}},
       {kProfile},
       {done, bad_input, rank_failed},
       {"predict", "doctor"}},
      {"doctor",
       {"Says what this machine has for training runs, and what is missing for which feature and how to get "
        "it."},
       {{"plumbline doctor", "A line per finding"}, {"plumbline doctor --json", "For a script"}},
       {},
       {done},
       {"calibrate"}},
      {"configuration",
       {"A configuration is a YAML file with Megatron-LM's names, one key per line. Every key is an option "
        "too, with dashes in "
        "place of underscores, and can be given with --set; options win over --set, --set over the file. "
        "Keys that are left "
        "out have the value that a single rank would use.",
        "A relative path in the file is relative to the file, one in an option to the current folder. A "
        "model may be a preset, "
        "the path of a Hugging Face config.json, or that file's keys as a mapping."},
       {{"plumbline run run.yaml --pipeline-model-parallel-size 2 --set zero_stage=1",
         "A key as an option, another with --set"},
        {"plumbline predict run.yaml --tp 2 --pp 4 --dp 8 --mbs 2 --gbs 256", "The short names"}},
       {kConfigFile},
       {},
       {"predict", "run", "matrix"}},
      {"help",
       {"Prints the manual: of the program, of a command, of all configuration keys (topic `configuration`), "
        "or the glossary "
        "of the field's terms. Any other topic is looked up in the glossary."},
       {{"plumbline help run", "The same as plumbline run --help"},
        {"plumbline help zero stage", "A term"},
        {"plumbline help run --format man", "A manual page: add | man -l -"}},
       {},
       {done, bad_input},
       {"completion"}},
      {"completion",
       {"Prints a script that completes commands, options, presets, schedules and files in a shell. The "
        "script asks "
        "plumbline itself, so that it knows every option of the version that is installed.",
        "bash: eval \"$(plumbline completion bash)\" in ~/.bashrc. zsh: eval \"$(plumbline completion zsh)\" "
        "in ~/.zshrc, "
        "after compinit. fish: plumbline completion fish > ~/.config/fish/completions/plumbline.fish."},
       {{"plumbline completion bash", "For bash"}, {"plumbline completion fish", "For fish"}},
       {},
       {done, bad_input},
       {"help"}},
  };
}

}  // namespace

const std::vector<CommandPage>& command_pages() {
  static const std::vector<CommandPage> kPages = make_pages();
  return kPages;
}

const CommandPage* find_command_page(std::string_view name) {
  const auto& pages = command_pages();
  const auto found =
      std::find_if(pages.begin(), pages.end(), [name](const CommandPage& page) { return page.name == name; });
  return found == pages.end() ? nullptr : &*found;
}

std::string_view meaning_of(ExitCode code) {
  switch (code) {
    case ExitCode::done:
      return "Done.";
    case ExitCode::regressed:
      return "A comparison found something that became slower or larger.";
    case ExitCode::bad_input:
      return "Bad usage or configuration; one line says what was found and what was expected. Nothing was "
             "started.";
    case ExitCode::does_not_fit:
      return "The configuration does not fit its memory.";
    case ExitCode::rank_failed:
      return "A rank failed, or something went wrong that is not the configuration's fault.";
    case ExitCode::timed_out:
      return "The ranks took longer than timeout_s.";
  }
  return "";
}

}  // namespace plumbline
