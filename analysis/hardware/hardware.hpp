// Machine profile of the time model: the constants of an accelerator and its network, or the times that
// `calibrate` measured.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "analysis/hardware/machine.hpp"
#include "analysis/hardware/measured_times.hpp"
#include "analysis/hardware/speed.hpp"
#include "core/base/units.hpp"
#include "core/run/collective.hpp"
#include "core/tensor/dtype.hpp"

namespace plumbline {

/// The three GEMMs of a linear layer: Y = X·Wᵀ, dX = dY·W, dW += dYᵀ·X (fp32 or storage-type result).
enum class GemmPass { forward, input_gradient, weight_gradient };
std::string_view name_of(GemmPass pass);

/// Times of single operators by size, in one process. It touches `working_set` bytes before it reuses the
/// same weights: caches matter as much as the arithmetic. Sizes without a table fall back to the
/// accelerator's constants, or else to the roofline.
struct OperatorTimes {
  Bytes working_set;
  /// Keyed "<pass>.<dtype>"; axes: token rows, output width, input width. "forward.fp8": products of FP8
  /// operands (missing: as in the storage type). All three passes have the form of a forward, so the axes are
  /// m, n and k of C (m × n) = A·Bᵀ.
  std::map<std::string, Grid> gemm;
  /// Keyed "forward.<dtype>", "backward.<dtype>", and with dropout "forward_dropout.<dtype>",
  /// "backward_dropout.<dtype>" (missing: as without); time of one query head of one sequence; axes: sequence
  /// length, head size, query heads per key/value head. "cached.<dtype>": of one query over a KV cache of
  /// that length (missing: the query's share of a forward).
  std::map<std::string, Grid> attention;
  /// Keyed "<operator>.<dtype>", operators named as in kernels/operators.hpp; size: elements of the
  /// operator's largest matrix; both 8-bit types are called fp8. Missing dropout_mask.uint8, dropout_add,
  /// dropout_backward, scale, head_norm_forward, head_norm_backward, row_products, scale_columns,
  /// remove_row_parts, route, arrange, route_backward, scale_rows, combine_rows, sigmoid_forward,
  /// sigmoid_backward, fp8_quantize, fp8_quantize_transpose, fp8_amax, fp8_transpose.fp8, fp8_scales: an
  /// `add` of as many bytes. Missing distillation_sums, distillation_divergence, distillation_gradient,
  /// softmax, divergence_terms, log_softmax_backward, greedy_choice: passes of a cross-entropy.
  std::map<std::string, Curve> memory_bound;
  /// The same for operators that start anew with every row (norms) or head (rope); axes: elements, elements
  /// of a row or head, 1. Missing, as in older profiles: in memory_bound.
  std::map<std::string, Grid> by_row;
};

/// Collectives that profiles have times of.
inline constexpr CollectiveKind kTimedCollectives[] = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                                       CollectiveKind::reduce_scatter};

/// A collective of a group of `ranks` while `world` ranks run on the machine (all groups at once).
struct CollectiveTime {
  int ranks = 2;
  int world = 2;
  DType dtype = DType::fp32;
  bool started =
      false;      // started and waited for (gradients, parameters) instead of awaited (tensor parallel)
  Curve seconds;  // size: bytes of the whole buffer, of an all-gather its output
  CollectiveKind kind = CollectiveKind::all_reduce;  // or all_gather, reduce_scatter
};

/// One-way message of a pair while `world` ranks run (all pairs at once).
struct MessageTime {
  int world = 2;
  Curve seconds;  // size: bytes
};

/// Device memory that a CUDA process uses besides tensors. `calibrate --backend cuda` measures it; the
/// accelerators of analysis/hardware have estimates. device_memory.hpp defines how often each counts.
struct DeviceOverhead {
  Bytes device;        // memory of the device, all of it; 0: nothing is known
  Bytes context;       // an empty CUDA context
  Bytes libraries;     // cuBLASLt's handle and workspace
  Bytes kernels;       // code that is loaded at its first launch
  Bytes nccl_first;    // once per process that communicates
  Bytes nccl_group;    // each communicator of a group
  Bytes nccl_channel;  // each communicator between two ranks, one direction
  bool measured = false;
  /// Rings and trees of a communicator are connected when it is made, as by backend cuda, not at their first
  /// use, NCCL's default (NCCL_RUNTIME_CONNECT). The sizes above are of this.
  bool connects_all = true;
  bool known() const { return device.value > 0; }
  friend bool operator==(const DeviceOverhead&, const DeviceOverhead&) = default;
};

/// A machine without an accelerator's constants: times are measured, or those of a roofline.
struct Calibrated {
  int processors = 0;  // shared by the ranks; 0: each has its own
};

/// An accelerator of analysis/hardware/ or of a user's file. Measured times of the profile go before its
/// constants.
struct Accelerator {
  std::string name;
  Machine constants;
};

struct HardwareProfile {
  std::string name;
  std::string machine;  // the calibrated machine, for people
  Calibration calibration;
  std::variant<Calibrated, Accelerator> kind;
  Bytes memory;  // of one device, for tensors; 0: unknown
  DeviceOverhead overhead;
  FlopsPerSecond peak_fp32;
  FlopsPerSecond peak_16bit;
  BytesPerSecond memory_bandwidth;

  /// Constants that a user's file leaves out, with their assumed values: lines for people.
  std::vector<std::string> defaults;

  // Roofline, used where a table has no entry and there is no accelerator.
  double gemm_efficiency = 0.75;       // share of the peak that a large GEMM reaches
  double attention_efficiency = 0.4;   // the same for attention
  double bandwidth_efficiency = 0.85;  // share of the bandwidth that a memory-bound operator reaches
  /// Launch overhead of every operator. With measured times: host time from one operator to the next.
  Seconds launch_overhead;

  // Links, used if there are no measured messages or collectives and no accelerator.
  Seconds link_latency;
  BytesPerSecond link_bandwidth;  // one direction, one rank

  // Ascending working sets. The cache levels interpolate between them for operands with other working sets;
  // without levels, as in older profiles, by the logarithm of the working set.
  std::vector<OperatorTimes> alone;  // nothing else runs
  std::vector<OperatorTimes> busy;   // every processor runs the same operator; empty: as alone
  CacheLevels alone_levels;
  CacheLevels busy_levels;
  std::vector<CollectiveTime> collectives;
  std::vector<MessageTime> messages;
  Seconds allocation;       // one tensor taken from and returned to the arena
  Seconds action_overhead;  // host, per action
  Seconds step_overhead;    // host, per step

  /// nullptr: calibrated.
  const Accelerator* accelerator() const { return std::get_if<Accelerator>(&kind); }
  Accelerator* accelerator() { return std::get_if<Accelerator>(&kind); }
  /// Processors that the ranks share; 0: every rank has its own, as on GPUs.
  int processors() const { return accelerator() != nullptr ? 0 : std::get<Calibrated>(kind).processors; }
  /// Gives every rank a processor of its own, as the emulated backend does.
  void unshare_processors() {
    if (accelerator() == nullptr) kind = Calibrated{};
  }
  /// Neither constants of an accelerator nor measured operators: every time is a guess.
  bool guessed() const { return accelerator() == nullptr && alone.empty(); }
  FlopsPerSecond peak(DType type) const { return type == DType::fp32 ? peak_fp32 : peak_16bit; }
  /// False: an accelerator whose matrix units have no FP8 types. Everything else can compute with them.
  bool multiplies_fp8() const {
    return accelerator() == nullptr || accelerator()->constants.device.peak_8bit > 0;
  }
  /// False: measured, but without FP8 products; those of the storage type are taken for them.
  bool measured_fp8() const;
};

/// A machine's constants as a profile.
HardwareProfile accelerator_profile(const std::string& name, const Machine& machine);
/// The machines of analysis/hardware/ by name; nullptr when there is none.
const HardwareProfile* find_hardware_preset(std::string_view name);
std::vector<std::string> hardware_preset_names();

/// A preset, a profile file written by `calibrate`, or an accelerator's own file (accelerator_file.hpp).
/// Throws InputError: file, key, what was expected.
HardwareProfile load_hardware(const std::string& preset_or_path);
/// Parses a profile as untrusted input: types, sizes, order, sign and range of every number are checked.
HardwareProfile parse_hardware(std::string_view json, const std::string& origin);
std::string to_json(const HardwareProfile& profile);

}  // namespace plumbline
