// Keys of a measurement: steps, disturbance, experts, computing ranks, the GPU.
#include "bench/record/tables/object_tables.hpp"

namespace plumbline {
namespace {

constexpr double kMostOfState = 1e9;
constexpr ValueRule kStateRule{Presence::always, 0, kMostOfState};

constexpr ValueRule at_most(std::size_t entries, Presence presence) {
  return {presence, 0, OrderedJsonKeys::kInfinite, entries};
}
constexpr ValueRule kSomeSteps = at_most(1'000'000, Presence::left_out);
constexpr ValueRule kSomeRanks = at_most(std::size_t{1} << 20, Presence::left_out);
constexpr ValueRule kSomeLayers = at_most(std::size_t{1} << 16, Presence::left_out);
constexpr ValueRule kLosses{Presence::left_out, -OrderedJsonKeys::kInfinite};

bool has_steps(const MeasurementReport& measurement) {
  return !measurement.steps.empty();
}

/// Follows from the steps.
Field<MeasurementReport> interval_field() {
  using Value = ValueOf<StepInterval>;
  Field<MeasurementReport> made;
  made.text = {"step_interval_s", "",
               "95 % interval of the median, from order statistics; below 6 steps their range",
               Value::schema({})};
  made.write = [](const MeasurementReport& measurement) {
    return Value::write(interval_of(measurement.steps));
  };
  return std::move(made).when(has_steps);
}

}  // namespace

template <>
const ObjectTable<StepReport>& table_of<StepReport>() {
  static const ObjectTable<StepReport> kTable{
      "step",
      "",
      {field("step_s", &StepReport::time, "step time", kOrNull),
       field("others", &StepReport::others, "share of processors used by other programs", kOrMissing),
       field("stolen", &StepReport::stolen, "share of processors taken by a hypervisor", kOrMissing),
       field("waited", &StepReport::waited,
             "share of the ranks' time ready without a processor; null with more ranks than processors",
             kOrMissing),
       field("involuntary_switches", &StepReport::involuntary, "times that ranks lost their processor",
             kOrMissing),
       field("frequency_hz", &StepReport::frequency, "mean of the ranks' processors", kOrMissing)}};
  return kTable;
}

template <>
const ObjectTable<DisturbanceReport>& table_of<DisturbanceReport>() {
  static const ObjectTable<DisturbanceReport> kTable{
      "disturbance",
      "Over all timed steps; shares as in [step](#step).",
      {field("others", &DisturbanceReport::others, "share", kOrNull),
       field("stolen", &DisturbanceReport::stolen, "share", kOrNull),
       field("waited", &DisturbanceReport::waited, "share", kOrNull),
       field("disturbed", &DisturbanceReport::disturbed,
             "true: one exceeds 5 % by more than the counters' ticks"),
       field("repeats", &DisturbanceReport::repeats,
             "repeated measurements, of which the least disturbed is kept", {Presence::always, 0, 1e6})}};
  return kTable;
}

template <>
const ObjectTable<ComputingReport>& table_of<ComputingReport>() {
  static const ObjectTable<ComputingReport> kTable{
      "computing",
      "For `plumbline stragglers --record`.",
      {field("rank", &ComputingReport::rank, "world rank", {Presence::always, 0, 0x1p30}),
       field("seconds", &ComputingReport::seconds, "computed in a step, without waits for ranks"),
       field("factor", &ComputingReport::factor,
             "against the median rank of its stage; null below three ranks per stage", kOrNull),
       field("standard_error", &ComputingReport::error, "of the factor", kOrNull)}};
  return kTable;
}

template <>
const ObjectTable<ExpertLoadReport>& table_of<ExpertLoadReport>() {
  static const ObjectTable<ExpertLoadReport> kTable{
      "expert_load",
      "",
      {field("layer", &ExpertLoadReport::layer, "MoE layer", {Presence::always, 0, 0x1p20}),
       field("tokens", &ExpertLoadReport::tokens, "by expert, in the last step",
             {Presence::always, 0, 1e15}),  // exact in a double
       field("dropped", &ExpertLoadReport::dropped, "dropped ones among them", {Presence::always, 0, 1e15})
           .checked([](const ExpertLoadReport& layer, const OrderedJsonKeys& row) {
             if (layer.dropped.size() != layer.tokens.size())
               row.refuse("dropped", "as many numbers as tokens");
           })}};
  return kTable;
}

template <>
const ObjectTable<AttentionReport>& table_of<AttentionReport>() {
  static const ObjectTable<AttentionReport> kTable{
      "attention",
      "Token pairs of packed sequences ÷ those of whole ones.",
      {field("mean", &AttentionReport::mean, "all ranks"),
       field("slowest", &AttentionReport::slowest, "slowest data-parallel ranks")}};
  return kTable;
}

template <>
const ObjectTable<ComputedBy>& table_of<ComputedBy>() {
  static const ObjectTable<ComputedBy> kTable{
      "computed_by",
      "",
      {field("call", &ComputedBy::call, "attention or product with its shape, or `messages and collectives`"),
       field("by", &ComputedBy::by,
             "cuDNN's version or `own kernels`, cuBLASLt's algorithm, NCCL's transports, registered bytes"),
       field("why", &ComputedBy::why, "reason if it was not the first choice", kLeftOut)}};
  return kTable;
}

template <>
const ObjectTable<GpuState>& table_of<GpuState>() {
  const auto figure = [](const char* key, double GpuState::*member, const char* meaning) {
    return field(key, member, meaning, kStateRule);
  };
  static const ObjectTable<GpuState> kTable{
      "gpu_state",
      "During timed steps, several times a second.",
      {field("samples", &GpuState::samples, "number"), figure("sm_mhz_min", &GpuState::least_sm_mhz, "MHz"),
       figure("sm_mhz_max", &GpuState::most_sm_mhz, "MHz"),
       figure("memory_mhz_max", &GpuState::most_memory_mhz, "MHz"),
       figure("power_w_mean", &GpuState::mean_watt, "W"), figure("power_w_max", &GpuState::most_watt, "W"),
       figure("temperature_c_max", &GpuState::most_celsius, "°C"),
       field("throttled", &GpuState::throttled, "NVML's reasons, such as `sw_power_cap`")}};
  return kTable;
}

template <>
const ObjectTable<GpuReport>& table_of<GpuReport>() {
  static const ObjectTable<GpuReport> kTable{
      "gpu",
      "World rank 0 on backend cuda.",
      {field("computed_by", &GpuReport::computed_by, ""), field("state", &GpuReport::state, "", kLeftOut)}};
  return kTable;
}

template <>
const ObjectTable<EnergyReport>& table_of<EnergyReport>() {
  static const ObjectTable<EnergyReport> kTable{
      "energy",
      "Of timed steps, other programs included.",
      {field("processors_w", &EnergyReport::processors_watt, "W of all hosts (RAPL)", kOrNull),
       field("gpus_w", &EnergyReport::gpus_watt, "W (NVML)", kOrNull),
       field("step_j", &EnergyReport::step_joule, "J, of both", kOrNull),
       field("token_j", &EnergyReport::token_joule, "J, of both", kOrNull),
       field("unavailable", &EnergyReport::unavailable, "reasons for null")}};
  return kTable;
}

template <>
const ObjectTable<MeasurementReport>& table_of<MeasurementReport>() {
  using Report = MeasurementReport;
  static const ObjectTable<Report> kTable{
      "measurement",
      "",
      {field("memory", &Report::memory, ""),
       field_in("time", &Report::time, "median of the timed steps", measured_time_table()),
       field_in("throughput", &Report::throughput, "", measured_throughput_table()),
       field("samples", &Report::samples, "timed steps"),
       field("step_s_min", &Report::step_min, "fastest of them", kOrNull),
       field("step_s_max", &Report::step_max, "slowest of them", kOrNull),
       field("loss", &Report::loss, "of the last step", {Presence::or_null, -OrderedJsonKeys::kInfinite}),
       field("device_reserved_bytes", &Report::device_reserved,
             "bytes counted by the memory source, largest of any rank"),
       field("losses", &Report::losses, "of every step with warm-up", kLosses),
       field("mtp_losses", &Report::module_losses, "of each multi-token prediction module in the last step",
             kLosses),
       field("traffic", &Report::traffic, "", kLeftOut),
       field("device_memory", &Report::device_memory, "", kLeftOut),
       field("gpu", &Report::gpu, "", kLeftOut),
       field("energy", &Report::energy, "", kLeftOut),
       field("checkpoints", &Report::checkpoints, "", kLeftOut),
       field("expert_load", &Report::expert_load, "", kSomeLayers),
       field("lanes", &Report::lanes, "", kLeftOut),
       field("attention", &Report::attention, "", kLeftOut),
       field("steps", &Report::steps, "", kSomeSteps),
       interval_field(),
       field("disturbance", &Report::disturbance, "", kNewer).when(has_steps),
       field("computing", &Report::computing, "missing on cuda", kSomeRanks).when(has_steps),
       field("rounds", &Report::rounds,
             "measurements of the cell (`matrix --rounds`); `steps` are those of all, other figures those of "
             "the "
             "round nearest the median",
             {Presence::newer, 1, 1 << 24})
           .when(has_steps)},
      true};
  return kTable;
}

}  // namespace plumbline
