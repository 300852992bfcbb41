#include "bench/ask/validate_answer.hpp"

#include <vector>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/published/published.hpp"
#include "bench/plan/schedule_makers.hpp"
#include "bench/show/views/validate_report.hpp"

namespace plumbline {

OrderedJson validate_answer(const std::function<void(int, int)>& progress) {
  const std::vector<PublishedTable> tables = built_in_tables();
  std::vector<ComparedTable> compared;
  for (const PublishedTable& table : tables) {
    if (progress) progress(static_cast<int>(compared.size()), static_cast<int>(tables.size()));
    compared.push_back(compare_table(table, built_in_profiles(), schedule_makers()));
  }
  return OrderedJson::parse(validation_json(compared));
}

}  // namespace plumbline
