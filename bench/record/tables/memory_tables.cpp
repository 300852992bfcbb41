// Keys of memory: live tensors, and a GPU's memory.
#include "bench/record/tables/object_tables.hpp"

namespace plumbline {
namespace {

constexpr double kMostWorldRanks = 1 << 24;
constexpr ValueRule kRank{Presence::always, 0, kMostWorldRanks};
constexpr ValueRule kAlike{Presence::left_out, 1, kMostWorldRanks};

}  // namespace

template <>
const ObjectTable<HolderReport>& table_of<HolderReport>() {
  static const ObjectTable<HolderReport> kTable{
      "holder",
      "",
      {field("name", &HolderReport::holder, "tensors"),
       field("category", &HolderReport::category, "of memory"),
       field("bytes", &HolderReport::bytes, "together"), field("tensors", &HolderReport::tensors, "number")}};
  return kTable;
}

template <>
const ObjectTable<RankMemoryReport>& table_of<RankMemoryReport>() {
  static const ObjectTable<RankMemoryReport> kTable = [] {
    using Report = RankMemoryReport;
    ObjectTable<Report> table{
        "rank_memory",
        "",
        {field("rank", &Report::rank, "world rank", kRank),
         field("pipeline_rank", &Report::pipeline_rank, "its pipeline coordinate", kRank),
         field("ranks_alike", &Report::ranks_alike,
               "world ranks from `rank` on that the row stands for; left out: 1", kAlike)}};
    for (int i = 0; i < kCategories; ++i) {
      const auto category = static_cast<Category>(i);
      const std::string key = std::string(name_of(category)) + "_bytes";
      Field<Report>& each = table.fields.emplace_back();
      // A sum over the categories stays a number.
      const ValueRule rule{Presence::always, 0, 0x1p60 / kCategories};
      each.text = {key, "", "of this category at the rank's peak", number_schema("integer", {})};
      each.write = [category](const Report& rank) { return ValueOf<Bytes>::write(rank.bytes[category]); };
      each.read = [category, key, rule](Report& rank, const OrderedJsonKeys& keys) {
        rank.bytes[category] = ValueOf<Bytes>::read(keys, key, rule);
      };
    }
    Field<Report>& total = table.fields.emplace_back();
    total.text = {"total_bytes", "", "their sum", number_schema("integer", {})};
    total.write = [](const Report& rank) { return ValueOf<Bytes>::write(rank.bytes.total()); };
    table.fields.push_back(field("host_bytes", &Report::host,
                                 "peak of host memory (offloaded activations); not in the sum", kLeftOut));
    table.fields.push_back(field("at", &Report::at,
                                 "action of the peak (`3F7`: stage 3, forward of micro-batch 7); measured at "
                                 "tensor and data coordinate 0 only",
                                 kLeftOut));
    table.fields.push_back(
        field("holders", &Report::holders, "measured only: largest tensors at the peak by name", kLeftOut));
    return table;
  }();
  return kTable;
}

template <>
const ObjectTable<MemoryReport>& table_of<MemoryReport>() {
  static const ObjectTable<MemoryReport> kTable{
      "memory",
      "Live tensors, without rounding or cached free blocks.",
      {field("peak_bytes", &MemoryReport::peak, "total of the largest rank"),
       field("peak_rank", &MemoryReport::peak_rank, "its world rank", kRank),
       field("ranks", &MemoryReport::ranks, "")}};
  return kTable;
}

template <>
const ObjectTable<DeviceMemoryRow>& table_of<DeviceMemoryRow>() {
  using Row = DeviceMemoryRow;
  static const ObjectTable<Row> kTable{
      "device_memory_rank",
      "On a shared GPU, `nccl_bytes` and `other_bytes` are even shares.",
      {field("rank", &Row::rank, "world rank", kRank),
       field("allocated_bytes", &Row::allocated, "live tensors at their peak"),
       field("reserved_bytes", &Row::reserved, "peak of their pool", kOrNull),
       field("context_bytes", &Row::context, "an empty CUDA context; null without NVML", kOrNull),
       field("libraries_bytes", &Row::libraries, "cuBLASLt's handle and workspace, operators' scratch"),
       field("nccl_bytes", &Row::nccl, "communicators after their first use"),
       field("other_bytes", &Row::other, "kernels and other growth outside the pools up to the last step"),
       field("total_bytes", &Row::total, "the sum, with reserved bytes for tensors if known"),
       field("device_used_bytes", &Row::device_used, "all processes after the last step", kOrNull),
       field("ranks_on_device", &Row::ranks_on_device, "ranks on the GPU", kRank),
       field("allocator_margin_bytes", &Row::margin,
             "predicted only: memory that the software's allocator cannot use. Without a `memory_budget`, "
             "`fits` compares `total_bytes` plus this with `device_bytes`",
             kLeftOut),
       field("ranks_alike", &Row::ranks_alike, "as in [rank_memory](#rank_memory)", kAlike)}};
  return kTable;
}

template <>
const ObjectTable<DeviceMemoryReport>& table_of<DeviceMemoryReport>() {
  static const ObjectTable<DeviceMemoryReport> kTable{
      "device_memory",
      "GPU memory of each rank's process: measured on backend cuda, predicted if the profile knows the "
      "device.",
      {field("source", &DeviceMemoryReport::source, "origin of the figures"),
       field("device_bytes", &DeviceMemoryReport::device, "memory of one device"),
       field("ranks", &DeviceMemoryReport::ranks, "")}};
  return kTable;
}

}  // namespace plumbline
