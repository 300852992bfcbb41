#include "bench/commands/benchmarks/operator_bench.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <map>

#include "bench/commands/benchmarks/bench_launch.hpp"
#include "bench/commands/operators/operator_rows.hpp"
#include "bench/measure/machine/cuda_facts.hpp"
#include "bench/plan/operator_prediction.hpp"
#include "bench/processes/hosts/placement.hpp"
#include "bench/run/benched_operators.hpp"
#include "bench/show/views/benchmarks/operator_table.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline {
namespace {

constexpr std::array kAllKinds = {BenchedOperator::gemm, BenchedOperator::attention, BenchedOperator::experts,
                                  BenchedOperator::memory_bound};
constexpr std::int64_t kMostSize = std::int64_t{1} << 40;
constexpr double kMostBytes = 64e9;  // of one operand

using Words = std::map<std::string, std::string, std::less<>>;

/// Words of a shape, each used once.
class ShapeWords {
 public:
  ShapeWords(Words words, std::string place) : words_(std::move(words)), place_(std::move(place)) {}

  std::string take(std::string_view name) {
    const auto found = words_.find(name);
    if (found == words_.end()) return "";
    std::string word = std::move(found->second);
    words_.erase(found);
    return word;
  }
  std::int64_t size(const ShapeColumn& column) {
    const std::string word = take(column.name);
    if (word.empty() && column.otherwise) return *column.otherwise;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    const std::int64_t least = column.otherwise == 0 ? 0 : 1;
    if (error != std::errc() || end != word.data() + word.size() || value < least || value > kMostSize) {
      refuse(column.name, word, fmt::format("a whole number from {} to {}", least, kMostSize));
    }
    return value;
  }
  template <class Value>
  Value one_of(std::string_view name, std::initializer_list<Value> values, Value otherwise) {
    const std::string word = take(name);
    if (word.empty()) return otherwise;
    std::vector<std::string_view> names;
    for (const Value value : values) {
      if (name_of(value) == word) return value;
      names.push_back(name_of(value));
    }
    refuse(name, word, fmt::format("one of {}", fmt::join(names, ", ")));
  }
  [[noreturn]] void refuse(std::string_view name, const std::string& found, std::string_view expected) const {
    throw InputError(fmt::format("{}{}: found {}, expected {}", place_, name,
                                 found.empty() ? "nothing" : printable(found), expected));
  }
  const Words& rest() const { return words_; }

 private:
  Words words_;
  std::string place_;
};

DType default_type(const BenchOptions& options) {
  if (options.type == "int32") {
    throw InputError("--type: found int32, expected fp32 or bf16 for operators; change it");
  }
  return options.type == "bf16" ? DType::bf16 : DType::fp32;
}

void check_sizes(const BenchedShape& s, const ShapeWords& words) {
  const auto divides = [&](std::string_view name, std::int64_t part, std::string_view whole_name,
                           std::int64_t whole) {
    if (whole % part != 0) {
      words.refuse(name, std::to_string(part), fmt::format("a divisor of {} {}", whole_name, whole));
    }
  };
  if (s.kind == BenchedOperator::attention) divides("kv_heads", s.kv_heads, "heads", s.heads);
  if (s.kind == BenchedOperator::experts) {
    divides("ep", s.ep, "experts", s.experts);
    divides("tp", s.tp, "ffn", s.ffn);
    if (s.choices > s.experts) words.refuse("choices", std::to_string(s.choices), "at most experts");
  }
  const auto number = [](std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) * static_cast<double>(b);
  };
  const double most =
      std::max({number(s.m, s.k), number(s.n, s.k), number(s.m, s.n), number(s.tokens, s.width),
                number(s.batch * s.sequence, s.heads * s.head), number(s.tokens * s.choices, s.hidden),
                number(s.tokens * s.choices, 2 * s.ffn), number(s.experts * s.hidden, 2 * s.ffn)});
  if (most * static_cast<double>(size_of(s.type)) > kMostBytes) {
    words.refuse("shape", shape_text(s), "operands of at most 64 GB; make it smaller");
  }
}

/// `strict`: of a column that the kind lacks, an error.
BenchedShape parse_shape(BenchedOperator kind, ShapeWords words, DType type, bool strict) {
  BenchedShape shape;
  shape.kind = kind;
  shape.type = words.one_of("type", {DType::fp32, DType::bf16}, type);
  if (kind == BenchedOperator::gemm) {
    shape.pass = words.one_of(
        "pass", {BenchedPass::forward, BenchedPass::input_gradient, BenchedPass::weight_gradient},
        BenchedPass::forward);
  } else if (kind == BenchedOperator::attention) {
    shape.pass = words.one_of("pass", {BenchedPass::forward, BenchedPass::backward}, BenchedPass::forward);
  } else if (kind == BenchedOperator::memory_bound) {
    shape.name = words.take("name");
    const auto known = memory_bound_operators();
    if (std::find(known.begin(), known.end(), shape.name) == known.end())
      words.refuse("name", shape.name, fmt::format("one of {}", fmt::join(known, ", ")));
  }
  for (const ShapeColumn& column : shape_columns(kind)) shape.*column.size = words.size(column);
  if (shape.kv_heads == 0) shape.kv_heads = shape.heads;
  if (strict && !words.rest().empty()) {
    const auto& [name, word] = *words.rest().begin();
    words.refuse(printable(name), word, "a column of " + std::string(name_of(kind)));
  }
  check_sizes(shape, words);
  return shape;
}

/// "m=512,n=512,k=512".
Words words_of(const std::string& text) {
  Words words;
  for (std::size_t first = 0; first <= text.size();) {
    const std::size_t comma = std::min(text.find(',', first), text.size());
    const std::string part = text.substr(first, comma - first);
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) {
      throw InputError(fmt::format("--shape: found \"{}\", expected COLUMN=VALUE,… such as m=512,n=512,k=512",
                                   printable(part)));
    }
    words[part.substr(0, equals)] = part.substr(equals + 1);
    first = comma + 1;
  }
  return words;
}

std::vector<BenchedOperator> kinds_of(const BenchOptions& options) {
  std::vector<BenchedOperator> kinds;
  for (const std::string& word : options.kinds) {
    const auto* const found = std::find_if(kAllKinds.begin(), kAllKinds.end(),
                                           [&](BenchedOperator kind) { return name_of(kind) == word; });
    if (found == kAllKinds.end()) {
      throw InputError(
          fmt::format("KIND: found {}, expected gemm, attention, experts or memory-bound", printable(word)));
    }
    kinds.push_back(*found);
  }
  if (!kinds.empty()) return kinds;
  if (options.config.empty()) return {BenchedOperator::gemm};
  return {kAllKinds.begin(), kAllKinds.end()};
}

/// A few of every kind, on a processor in milliseconds.
std::vector<std::string> usual_shapes(BenchedOperator kind) {
  switch (kind) {
    case BenchedOperator::gemm:
      return {"m=256,n=256,k=256", "m=512,n=512,k=512", "m=1024,n=1024,k=1024", "m=2048,n=2048,k=2048"};
    case BenchedOperator::attention:
      return {"sequence=512,heads=8,head=64", "sequence=1024,heads=8,head=64",
              "sequence=1024,heads=8,head=64,pass=backward"};
    case BenchedOperator::experts:
      return {"tokens=512,hidden=512,ffn=512,choices=2,experts=8"};
    case BenchedOperator::memory_bound:
      break;
  }
  std::vector<std::string> shapes;
  for (const std::string_view name : memory_bound_operators())
    shapes.push_back(fmt::format("name={},tokens=1024,width=1024", name));
  return shapes;
}

}  // namespace

std::vector<BenchedShape> benched_shapes(const BenchOptions& options) {
  const std::vector<BenchedOperator> kinds = kinds_of(options);
  const DType type = default_type(options);
  if (!options.config.empty()) {
    const RunConfig config = load_run_config(options.config, {});
    if (const auto reason = why_invalid(config)) throw InputError(*reason);
    return shapes_of(config, kinds);
  }
  const bool given = !options.shapes.empty() || !options.shape_file.empty();
  if (given && kinds.size() > 1) {
    throw InputError(fmt::format("KIND: found {} kinds, expected one for given shapes", kinds.size()));
  }
  std::vector<BenchedShape> shapes;
  for (const BenchedOperator kind : kinds) {
    for (const std::string& text : given ? options.shapes : usual_shapes(kind))
      shapes.push_back(parse_shape(kind, {words_of(text), "--shape: "}, type, true));
  }
  if (!options.shape_file.empty()) {
    for (ShapeLine& line : read_shape_table(options.shape_file).lines)
      shapes.push_back(parse_shape(kinds.front(), {std::move(line.words), line.place}, type, false));
  }
  return shapes;
}

int run_operator_bench(const BenchOptions& options) {
  const std::vector<BenchedShape> shapes = benched_shapes(options);
  const Backend backend = bench_backend(options);
  if (find_placement(process_variables()).one_of_several()) {
    throw InputError(
        "bench operator: found a rank of several, expected one process; start it without mpirun");
  }
  if (backend == Backend::cuda) {
    if (const auto reason = why_no_cuda(cuda_facts())) throw InputError(*reason);
  }
  const HardwareProfile hardware = bench_hardware(options);
  OperatorPrediction prediction(hardware);
  OperatorTable table(options.json  ? OperatorFormat::json
                      : options.csv ? OperatorFormat::csv
                                    : OperatorFormat::table,
                      options.backend);
  const auto put = [](const std::string& text) {
    fmt::print("{}", text);
    std::fflush(stdout);  // a run that is cut off has printed its results so far
  };
  bench_operators(shapes, backend, options.limit_s, [&](OperatorRow row) {
    prediction.predict(row);
    put(table.row(row));
  });
  put(table.end());
  return static_cast<int>(ExitCode::done);
}

}  // namespace plumbline
