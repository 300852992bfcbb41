// Time of one operator or collective on an accelerator: measured, interpolated, or estimated from the
// accelerator's constants (analysis/silicon/README.md).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "analysis/hardware/machine.hpp"
#include "analysis/operators/operator_shapes.hpp"
#include "analysis/silicon/measured_table.hpp"

namespace plumbline::silicon {

/// Device clocks that a time holds for. A kernel shorter than a millisecond runs at burst clocks when it runs
/// alone. Repeated for a second it meets the board's power limit.
enum class Clock : std::uint8_t {
  as_measured,
  burst,
  sustained
};  // as_measured: sustained where that was measured

struct OperatorTime {
  double seconds = 0;
  Basis basis = Basis::estimated;
  bool sustained = false;
};

/// Looks up times for one accelerator. Tables are read at first use; not thread-safe.
class OperatorLookup {
 public:
  /// `accelerator`: name of the tables. `machine`: constants for sizes outside the tables, or without any.
  OperatorLookup(std::string accelerator, Machine machine)
      : accelerator_(std::move(accelerator)), machine_(std::make_shared<const Machine>(std::move(machine))) {}

  /// Throws InputError if the accelerator lacks the type, or sustained clocks are asked for but not measured.
  OperatorTime product(const ProductShape& shape, Clock clock = Clock::as_measured);
  OperatorTime attention(const AttentionShape& shape);
  OperatorTime latent_attention(const LatentAttentionShape& shape);
  OperatorTime experts(const ExpertsShape& shape);
  OperatorTime collective(const CollectiveShape& shape);
  OperatorTime cast(const CastShape& shape);
  OperatorTime exchange(const ExchangeShape& shape);

 private:
  using Tables = std::map<std::string, MeasuredTable, std::less<>>;
  /// By the grid, or, without one, by `constants`.
  OperatorTime looked_up(const TimeGrid* grid, std::span<const double> size,
                         const SecondsOfPoint& constants) const;
  const Tables& tables(const std::string& file);
  const TimeGrid* grid(const std::string& file, const std::string& section, const Keys& keys,
                       const std::vector<KeyAxis>& along, Spacing last, const SecondsOfPoint& model);

  std::string accelerator_;
  std::shared_ptr<const Machine> machine_;  // shared with the models of the grids
  std::map<std::string, Tables> tables_;
  std::map<std::string, std::optional<TimeGrid>> grids_;
};

}  // namespace plumbline::silicon
