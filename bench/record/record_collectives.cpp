#include "bench/record/record_collectives.hpp"

#include <cmath>
#include <string>

namespace plumbline {

OrderedJson to_json(const VocabularyOverlap& overlap) {
  OrderedJson json = OrderedJson::object();
  for (const VocabularyCall call : kAllVocabularyCalls) {
    const CollectiveOverlap& each = overlap[static_cast<std::size_t>(call)];
    json[std::string(short_name(call))] = {
        {"time_s", each.time.value},
        {"exposed_s", each.exposed.value},
        {"waited_s", each.waited.value},
        {"overlapped", std::isfinite(each.overlapped) ? OrderedJson(each.overlapped) : OrderedJson(nullptr)}};
  }
  return json;
}

std::optional<VocabularyOverlap> vocabulary_collectives_of(const Keys& time) {
  if (time.find("vocabulary_collectives") == nullptr) return std::nullopt;
  const Keys rows = time.object("vocabulary_collectives");
  VocabularyOverlap overlap{};
  for (const VocabularyCall call : kAllVocabularyCalls) {
    const Keys row = rows.object(std::string(short_name(call)).c_str());
    overlap[static_cast<std::size_t>(call)] = {{row.at_least_0("time_s")},
                                               {row.at_least_0("exposed_s")},
                                               {row.at_least_0("waited_s")},
                                               row.at_least_0_or_unknown("overlapped")};
  }
  return overlap;
}

}  // namespace plumbline
