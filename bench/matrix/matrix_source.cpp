#include "bench/matrix/matrix_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/evaluate/evaluation.hpp"
#include "bench/matrix/fit_choice.hpp"
#include "bench/measure/machine/machine_facts.hpp"
#include "bench/measure/machine/named_hardware.hpp"
#include "bench/plan/packed_data.hpp"
#include "bench/plan/plan.hpp"
#include "bench/show/text/progress.hpp"
#include "core/base/error.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

/// The budget of a cell that has a share of its peak.
void set_budget(MatrixCell& cell) {
  if (cell.budget_share <= 0 || !cell.invalid.empty()) return;
  try {
    const Bytes peak = predict_memory(cell.config, step_for(cell.config)).peak;
    cell.config.machine.memory_budget = {std::max(
        std::int64_t{1}, static_cast<std::int64_t>(cell.budget_share * static_cast<double>(peak.value)))};
  } catch (const InputError& error) {
    cell.invalid = error.what();
  }
}

}  // namespace

MatrixSource::MatrixSource(std::string source, Overrides overrides)
    : source_(std::move(source)), overrides_(std::move(overrides)), fit_(load_fit(source_)) {
  const auto is_precision = [](const Override& each) {
    return get_config_key(each.key, each.origin).name == "precision";
  };
  if (fit_ && std::any_of(overrides_.begin(), overrides_.end(), is_precision)) fit_->precisions.clear();
}

std::vector<MatrixCell> MatrixSource::cells_of(const Settings& size, const Overrides& more) const {
  Overrides all = more;
  all.insert(all.end(), overrides_.begin(), overrides_.end());
  std::vector<MatrixCell> cells = load_matrix(source_, all, size);
  for (MatrixCell& cell : cells) {
    if (cell.invalid.empty()) {
      name_hardware(cell.config.machine.hardware);
      add_packed_work(cell.config);
    }
    set_budget(cell);
  }
  return cells;
}

std::vector<MatrixCell> MatrixSource::cells(const Overrides& more) const {
  return cells_of(size_, more);
}

void MatrixSource::fit_machine(const std::string& folder, bool keep, CellEstimates& estimates) {
  if (!fit_) return;
  const bool bf16 = multiplies_bf16();
  const std::string precision = choose_precision(fit_->precisions, bf16);
  std::optional<FitChoice> choice = kept_choice(folder, *fit_);
  std::string why;
  if (choice) {
    if (choice->precision.empty()) choice->precision = precision;
    why = fmt::format(" as chosen before ({}/{})", folder, kFitFile);
  } else {
    choice = choose_size(*fit_, precision,
                         [&](const Settings& size) { return estimates.sum(cells_of(size, {})); });
    if (keep) choice = keep_choice(folder, *fit_, *choice);
    why = fmt::format(", {} within {}", choice->predicted > fit_->target ? "none is" : "the largest",
                      readable_duration(fit_->target.value));
    if (!precision.empty() && !bf16) why += "; this processor does not multiply bf16";
  }
  size_ = fit_->settings(choice->size, choice->precision);
  chosen_ = fmt::format("{}{}{}{}", describe(*fit_, *choice), choice->precision.empty() ? "" : ", ",
                        choice->precision, why);
}

}  // namespace plumbline
