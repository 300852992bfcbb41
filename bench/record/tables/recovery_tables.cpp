// Keys of a run that failures were injected into, and of its checkpoints.
#include "bench/record/tables/object_tables.hpp"

namespace plumbline {
namespace {

constexpr double kMostRunSteps = 0x1p40;
constexpr ValueRule kStepCount{Presence::always, 0, kMostRunSteps};
constexpr ValueRule kFromOne{Presence::always, 1};
constexpr ValueRule kManyRows{Presence::always, 0, OrderedJsonKeys::kInfinite, std::size_t{1} << 16};

}  // namespace

template <>
const ObjectTable<CheckpointReport>& table_of<CheckpointReport>() {
  using Report = CheckpointReport;
  static const ObjectTable<Report> kTable{
      "checkpoints",
      "Runs with `--checkpoint-dir`, last start of the ranks.",
      {field("interval", &Report::interval, "steps between two; 0: one after the last step", kStepCount),
       field("async", &Report::async, "written alongside the next steps"),
       field("written", &Report::written, "complete ones", kStepCount),
       field("failed", &Report::failed, "failed ones", kStepCount),
       field("bytes", &Report::bytes, "one checkpoint"),
       field("largest_buffer_bytes", &Report::largest_buffer,
             "a rank's host buffer, in no other memory figure"),
       field("stall_s", &Report::stall, "mean wait of training, not in `step_s`"),
       field("stall_s_max", &Report::stall_max, "longest wait"),
       field("durable_s", &Report::durable, "mean time until readable"),
       field("resumed_step", &Report::resumed_step, "checkpoint resumed from; 0: none", kStepCount),
       field("restore_s", &Report::restore, "time to restore it")}};
  return kTable;
}

template <>
const ObjectTable<ReducedSteps>& table_of<ReducedSteps>() {
  static const ObjectTable<ReducedSteps> kTable{
      "reduced_steps",
      "",
      {field("replicas", &ReducedSteps::replicas, "data-parallel replicas", kFromOne),
       field("steps", &ReducedSteps::steps, "kept steps with them", kStepCount),
       field("step_s", &ReducedSteps::step, "one of these steps")}};
  return kTable;
}

template <>
const ObjectTable<RecoveryCosts>& table_of<RecoveryCosts>() {
  using Costs = RecoveryCosts;
  static const ObjectTable<Costs> kTable{
      "recovery_costs",
      "",
      {field("step_s", &Costs::step, "a step with all replicas"),
       field("stall_s", &Costs::stall, "a checkpoint"),
       field("durable_s", &Costs::durable, "until it is readable"),
       field("restart_s", &Costs::restart, "unbroken restarts, or the first start"),
       field("detect_kill_s", &Costs::detect_kill, "failure until all ranks are gone; 0: none came"),
       field("detect_hang_s", &Costs::detect_hang, "failure until all ranks are gone; 0: none came"),
       field("reduced", &Costs::reduced, "", kManyRows)}};
  return kTable;
}

template <>
const ObjectTable<PredictedGoodput>& table_of<PredictedGoodput>() {
  using Goodput = PredictedGoodput;
  static const ObjectTable<Goodput> kTable{
      "predicted_goodput",
      "Goodput by [analysis/reliability](../analysis/reliability/README.md#finite-runs).",
      {field("mean", &Goodput::mean, "mean of such runs"),
       field("low", &Goodput::low, "range of nine runs in ten"),
       field("high", &Goodput::high, "range of nine runs in ten"),
       field("of_seed", &Goodput::of_seed, "for this seed's failures"),
       field("from", &Goodput::from, "costs of `--recovery-costs` or of this run")}};
  return kTable;
}

template <>
const ObjectTable<FailureReport>& table_of<FailureReport>() {
  using Failure = FailureReport;
  static const ObjectTable<Failure> kTable{
      "failure",
      "Kind `return` is a start with more replicas.",
      {field("kind", &Failure::kind, "`kill`, `hang`, `disk` or `return`")
           .among({"kill", "hang", "disk", "return"}),
       field("rank", &Failure::rank, "world rank"), field("at_s", &Failure::at, "since the first step began"),
       field("detect_s", &Failure::detect, "until all ranks are gone"),
       field("restart_s", &Failure::restart, "until the next step can begin"),
       field("waiting_s", &Failure::waiting, "wait for ranks"),
       field("lost_s", &Failure::lost, "repeated work"),
       field("lost_steps", &Failure::lost_steps, "whole steps of it", kStepCount),
       field("resumed_step", &Failure::resumed_step, "checkpoint resumed from", kStepCount),
       field("replicas", &Failure::replicas, "remaining replicas", kFromOne)}};
  return kTable;
}

template <>
const ObjectTable<SaveReport>& table_of<SaveReport>() {
  static const ObjectTable<SaveReport> kTable{
      "save",
      "",
      {field("step", &SaveReport::step, "step of the checkpoint", {Presence::always, 1, kMostRunSteps}),
       field("at_s", &SaveReport::at, "since the first step began"),
       field("stall_s", &SaveReport::stall, "wait of training"),
       field("durable_s", &SaveReport::durable, "until readable")}};
  return kTable;
}

template <>
const ObjectTable<RecoveryReport>& table_of<RecoveryReport>() {
  using Report = RecoveryReport;
  static const ObjectTable<Report> kTable{
      "recovery",
      "Records of `run --inject-failures`. `useful_s` to `missing_s` sum up to `total_s`. With `--elastic`, "
      "`measurement` is of the remaining replicas, without `error`.",
      {field("mtbf_s", &Report::mtbf, "as given"), field("replacement_s", &Report::replacement, "as given"),
       field("total_s", &Report::total, "begin of the first step to end of the last"),
       field("useful_s", &Report::useful, "kept work"), field("stalls_s", &Report::stalls, "checkpoints"),
       field("lost_s", &Report::lost, "repeated work"),
       field("detect_s", &Report::detect, "failure until all ranks are gone"),
       field("restart_s", &Report::restart, "then until the next step can begin"),
       field("waiting_s", &Report::waiting, "wait for ranks"),
       field("missing_s", &Report::missing, "extra time of kept steps with fewer replicas", kAnySign),
       field("seed", &Report::seed, "as given"),
       field("begun_step", &Report::begun_step, "checkpoint that the run began with", kStepCount),
       field("steps", &Report::steps, "steps of the run after `begun_step`",
             {Presence::always, 1, kMostRunSteps}),
       field("goodput", &Report::goodput, "useful share of `total_s`"), field("costs", &Report::costs, ""),
       field("predicted", &Report::predicted, ""), field("failures", &Report::failures, "", kManyRows),
       field("saves", &Report::saves, "complete checkpoints, kept or not, first 10,000", kManyRows)}};
  return kTable;
}

}  // namespace plumbline
