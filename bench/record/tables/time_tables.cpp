// Keys of times, throughput, lanes and collectives. A new figure is a line in core/trace/step_figures.hpp.
#include "bench/record/tables/object_tables.hpp"

namespace plumbline {
namespace {

/// Words behind a figure's title in the reference page.
struct FigureNote {
  std::string_view key;
  const char* text;
};
constexpr FigureNote kFigureNotes[] = {
    {time_figure("bubble_ratio").key,
     "within the pipeline's part of the step; (P−1)/M for 1F1B with equal stages"},
    {time_figure("compute_s").key, "forward and backward"},
    {time_figure("exposed_data_s").key,
     "ARG, ARE, and waits for gathers and reductions (backend cuda: in `compute_s`)"},
    {time_figure("exposed_offload_s").key, "backend cuda counts them in `compute_s`"},
    {time_figure("exposed_vocabulary_s").key, "part of `exposed_pipeline_s`"},
    {throughput_figure("model_tflops_per_gpu").key, "in 10^12 model FLOPs"},
    {throughput_figure("mfu").key, "÷ `peak_tflops`; counts a teacher's forward"},
    {throughput_figure("hfu").key, "with executed FLOPs (recomputation, padding)"},
};

template <class Owner>
std::string meaning_of(const Figure<Owner>& figure) {
  std::string meaning(figure.title);
  for (const FigureNote& note : kFigureNotes) {
    if (note.key == figure.key) meaning += std::string("; ") + note.text;
  }
  return meaning;
}

/// Measurements may lack times: null.
template <class Owner, std::size_t N>
std::vector<Field<Owner>> fields_of(const Figure<Owner> (&figures)[N], bool measured) {
  std::vector<Field<Owner>> fields;
  for (const Figure<Owner>& figure : figures) {
    const bool or_null = measured && figure.timed;
    ValueRule rule;
    // An unknown value of a record without the key is null in later ones.
    if (or_null || (figure.when_lacking && std::isnan(*figure.when_lacking))) rule = kOrNull;
    Field<Owner>& made = fields.emplace_back();
    made.text = {std::string(figure.key), "", meaning_of(figure), number_schema("number", rule),
                 !figure.when_lacking};
    made.write = [&figure](const Owner& owner) { return finite_or_null(figure.of(owner)); };
    made.read = [&figure, or_null](Owner& owner, const OrderedJsonKeys& keys) {
      const std::string key(figure.key);
      if (figure.when_lacking && keys.find(key) == nullptr) {
        figure.set(owner, *figure.when_lacking);
      } else {
        figure.set(owner, or_null ? keys.number_or_null(key, 0) : keys.number(key, 0));
      }
    };
  }
  return fields;
}

ObjectTable<StepTime> time_table(bool measured) {
  ObjectTable<StepTime> table{
      measured ? "measured_time" : "time",
      measured ? "Keys of [time](#time); null: not timed." : "One step, means over the pipeline ranks.",
      fields_of(kTimeFigures, measured), false, measured};
  table.fields.push_back(field("vocabulary_collectives", &StepTime::vocabulary_collectives,
                               "by [kind](../bench/training/vocabulary.md#communication)", kLeftOut));
  return table;
}

ObjectTable<Throughput> throughput_table(bool measured) {
  return {measured ? "measured_throughput" : "throughput",
          measured ? "Keys of [throughput](#throughput); null: not timed." : "",
          fields_of(kThroughputFigures, measured), false, measured};
}

}  // namespace

const ObjectTable<StepTime>& predicted_time_table() {
  static const ObjectTable<StepTime> kTable = time_table(false);
  return kTable;
}
const ObjectTable<StepTime>& measured_time_table() {
  static const ObjectTable<StepTime> kTable = time_table(true);
  return kTable;
}
const ObjectTable<Throughput>& predicted_throughput_table() {
  static const ObjectTable<Throughput> kTable = throughput_table(false);
  return kTable;
}
const ObjectTable<Throughput>& measured_throughput_table() {
  static const ObjectTable<Throughput> kTable = throughput_table(true);
  return kTable;
}

template <>
const ObjectTable<CollectiveOverlap>& table_of<CollectiveOverlap>() {
  static const ObjectTable<CollectiveOverlap> kTable{
      "collective",
      "",
      {field("time_s", &CollectiveOverlap::time, "from the last rank's arrival"),
       field("exposed_s", &CollectiveOverlap::exposed, "exposed part of it"),
       field("waited_s", &CollectiveOverlap::waited, "all waiting for them"),
       field("overlapped", &CollectiveOverlap::overlapped,
             "share of their time in which the rank computes, in the steady state; null without one",
             {Presence::or_null, 0, 1})}};
  return kTable;
}

template <>
const ObjectTable<VocabularyOverlap>& table_of<VocabularyOverlap>() {
  static const ObjectTable<VocabularyOverlap> kTable = [] {
    ObjectTable<VocabularyOverlap> table{"vocabulary_collectives", "", {}};
    for (const VocabularyCall call : kAllVocabularyCalls)
      table.fields.push_back(
          element_field<VocabularyOverlap>(short_name(call), static_cast<std::size_t>(call), ""));
    return table;
  }();
  return kTable;
}

template <>
const ObjectTable<LaneTimes>& table_of<LaneTimes>() {
  static const ObjectTable<LaneTimes> kTable{"lane",
                                             "",
                                             {field("time_s", &LaneTimes::time, "its collectives in a step"),
                                              field("exposed_s", &LaneTimes::exposed, "exposed part of it")}};
  return kTable;
}

template <>
const ObjectTable<LaneSums>& table_of<LaneSums>() {
  static const ObjectTable<LaneSums> kTable = [] {
    ObjectTable<LaneSums> table{
        "lanes",
        "By [group](#traffic_groups) and `host` for copies: a [lane](#lane), the mean over the pipeline "
        "ranks at tensor and data coordinate 0. Waits for other ranks are left out. Measured on backend "
        "emulated, and on cuda with a trace or timelines.",
        {},
        false,
        true};
    for (std::size_t place = 0; place < kLanes; ++place)
      table.fields.push_back(
          element_field<LaneSums>(lane_name(lane_at(place)), place, "").when([place](const LaneSums& sums) {
            return sums[place].time.value > 0;
          }));
    return table;
  }();
  return kTable;
}

}  // namespace plumbline
