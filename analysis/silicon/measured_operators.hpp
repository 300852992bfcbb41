// Operators of a training step by an accelerator's measured tables.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "analysis/silicon/product_model.hpp"
#include "analysis/silicon/time_grid.hpp"

namespace plumbline::silicon {

enum class ProductType : std::uint8_t { bf16, fp8, nvfp4 };
enum class Collective : std::uint8_t { all_reduce, all_gather, reduce_scatter, alltoall };

/// Clocks of products that are measured alone, in milliseconds: those of a step last longer.
struct SustainedClocks {
  std::string like;       // accelerator with tables at burst and at sustained clocks; empty: burst clocks
  double more_clock = 1;  // clock of this accelerator over that one's, both at their power limit
};

/// Tables that an accelerator's steps take times from, and the models between their sizes.
struct StepTables {
  struct Product {
    ProductModel model;
    SustainedClocks clocks;
  };
  std::string accelerator;                                              // in the names of the tables
  std::array<std::optional<Product>, 3> products;                       // by ProductType; empty: not used
  std::function<SecondsOfPoint(double head, double window)> attention;  // forward; empty: not used
  std::function<SecondsOfPoint(double head, double window)> attention_backward;  // the same
  SecondsOfPoint casts;
  std::function<SecondsOfPoint(Collective)>
      collectives;  // within a host, by ranks and bytes; empty: not used
};

struct Measured {
  double seconds = 0;
  Basis basis = Basis::estimated;
};

/// Tables are read at the first question; for any number of threads.
class MeasuredOperators {
 public:
  explicit MeasuredOperators(StepTables tables);
  ~MeasuredOperators();
  MeasuredOperators(const MeasuredOperators&) = delete;
  MeasuredOperators& operator=(const MeasuredOperators&) = delete;

  /// m x k by k x n, result in 16 bits; operands are quantized already. Empty where the tables are not used.
  std::optional<Measured> product(ProductType type, double m, double n, double k) const;
  /// Causal attention, forward. `heads`: query heads of all sequences, `group` of them per key/value head.
  /// Empty where the tables are not used or lack the head size or window (keys per query; 0: none).
  std::optional<Measured> attention(double heads, double group, double sequence, double head,
                                    double window) const;
  /// Its backward by cuDNN, with the same sizes; `head`: the mean of keys' and values'. Empty where the table
  /// is not used or lacks the head size or window.
  std::optional<Measured> attention_backward(double heads, double sequence, double head, double window) const;
  /// NCCL's within a host; `bytes`: of the whole buffer. Empty where the tables are not used or end at fewer
  /// ranks.
  std::optional<Measured> collective(Collective operation, double ranks, double bytes) const;

 private:
  struct Grids;

  StepTables tables_;
  std::unique_ptr<Grids> grids_;  // read at the first question
};

}  // namespace plumbline::silicon
